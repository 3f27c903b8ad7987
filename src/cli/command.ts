// The base of every command: the flags that all have, opening a store and an agent, one way to print, one way to fail.

import { homedir } from "node:os";
import { join } from "node:path";
import * as Args from "@oclif/core/args";
import { Command } from "@oclif/core/command";
import * as Flags from "@oclif/core/flags";
import { type Agent, CheeseError, codes, Store, type StoreOptions } from "../index.ts";
import type { ChooseOptions, ChosenModel } from "../llm/choose.ts";
import { Progress, startSpinner } from "./progress.ts";
import { Renderer } from "./render.ts";
import { plain, Style } from "./style.ts";
import { type CommandForm, type UsageError, usageFailure } from "./usage.ts";

const TOKEN_FORM = /cheese_[A-Za-z0-9_-]{16,}/g;

/** Every argument is given on the command line: none is taken from a pipe unasked. */
export const anArg = (name: string, description: string) =>
  Args.string({ name, description, required: true, ignoreStdin: true });

export const agentArg = () => anArg("AGENT", "the agent's name");

export abstract class CheeseCommand extends Command {
  static override enableJsonFlag = true;

  static override baseFlags = {
    store: Flags.string({
      description: "folder of the store [default: ~/.cheesedb]",
      env: "CHEESEDB_DIR",
      helpValue: "DIR",
      helpGroup: "GLOBAL",
      noCacheDefault: true,
    }),
    token: Flags.string({
      description: "the agent's token, instead of the one kept in the store",
      env: "CHEESEDB_TOKEN",
      helpValue: "TOKEN",
      helpGroup: "GLOBAL",
      noCacheDefault: true,
    }),
    wait: Flags.string({
      description: "seconds to wait for another process that writes [default: 5]",
      helpValue: "SECONDS",
      helpGroup: "GLOBAL",
    }),
  };

  protected readonly render = new Renderer(new Style(process.stdout));
  protected readonly renderError = new Renderer(new Style(process.stderr));
  /** Aborted by the first Ctrl-C. */
  readonly #interrupt = new AbortController();
  #agents: Agent[] = [];
  #isTold = false;
  #progress: Progress | null = null;
  #stopSpinner: (() => void) | null = null;

  protected get signal(): AbortSignal {
    return this.#interrupt.signal;
  }

  /** Runs it as it stands: `run` of the class would load the configuration again. */
  start(): Promise<unknown> {
    return this._run();
  }

  override async init() {
    await super.init();
    const stop = () => {
      if (this.#interrupt.signal.aborted) process.exit(codes.CANCELLED.exit);
      this.#interrupt.abort(new CheeseError("CANCELLED", "interrupted"));
      // What is under way comes to its end; if that takes long, a second Ctrl-C ends it at once.
      setTimeout(async () => {
        if (!this.#isTold) await this.catch(this.#interrupt.signal.reason);
        process.exit(codes.CANCELLED.exit);
      }, 500).unref();
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  }

  protected storePath(flags: { store?: string | undefined }): string {
    return flags.store || join(homedir(), ".cheesedb");
  }

  protected async openStore(
    flags: { store?: string | undefined; wait?: string | undefined },
    options: StoreOptions = {},
  ): Promise<Store> {
    const store = await Store.open(this.storePath(flags), {
      create: false,
      waitMs: waitMs(flags.wait),
      ...options,
    });
    for (const { message, hint } of store.warnings) this.note(`Warning: ${message}. ${hint}`);
    return store;
  }

  /** Opens an agent with the token given or kept, and says once what opening it mended. */
  protected async openAgent(
    flags: { store?: string | undefined; token?: string | undefined; wait?: string | undefined },
    name: string,
    options: StoreOptions = {},
  ): Promise<Agent> {
    return this.openAgentIn(await this.openStore(flags, options), flags, name);
  }

  protected async openAgentIn(
    store: Store,
    flags: { token?: string | undefined },
    name: string,
  ): Promise<Agent> {
    const kept = flags.token ? null : store.keptToken(name);
    const token = flags.token || kept;
    if (!token) {
      store.requireAgent(name);
      throw new CheeseError("BAD_TOKEN", `no token is kept for agent "${name}"`, {
        hint: "Give the token that was shown when it was created: --token, or the environment's CHEESEDB_TOKEN.",
      });
    }
    const agent = await store.openAgent(token);
    this.#agents.push(agent);
    if (agent.name !== name.normalize("NFC")) {
      store.requireAgent(name);
      throw new CheeseError("BAD_TOKEN", `the token is not agent "${name}"'s`);
    }
    const { tornBytes, erasesFinished } = agent.opened;
    if (tornBytes > 0)
      this.note(
        `Note: a write that was cut short (${tornBytes} bytes, never acknowledged) was dropped.`,
      );
    if (erasesFinished > 0)
      this.note(
        `Note: ${erasesFinished} erase${erasesFinished > 1 ? "s" : ""} that a crash had left unfinished ${erasesFinished > 1 ? "were" : "was"} finished.`,
      );
    return agent;
  }

  /** Prints what is for people and gives back what --json prints: one object, two forms. */
  protected show<T extends object>(result: T, toText: (render: Renderer, result: T) => string): T {
    this.#progress?.end();
    if (!this.jsonEnabled()) {
      const text = toText(this.render, result);
      if (text !== "") process.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
    }
    return result;
  }

  /** Says something beside the result. */
  protected note(text: string) {
    this.#progress?.end();
    process.stderr.write(`${this.renderError.style.dim(plain(text))}\n`);
  }

  /** A bar on standard error, once the work has taken a second. */
  protected progress(what: string): (done: number, all: number) => void {
    this.#progress = new Progress(what, process.stderr);
    const progress = this.#progress;
    return (done, all) => progress.update(done, all);
  }

  /** Shows that something is under way; null ends it. */
  protected async spin(text: string | null) {
    this.#stopSpinner?.();
    this.#stopSpinner = null;
    if (text !== null && !this.jsonEnabled())
      this.#stopSpinner = await startSpinner(text, process.stderr);
  }

  /** The model that is configured, found, or built in; its name is said on standard error. */
  protected async chooseModel(
    flags: { store?: string | undefined },
    options: ChooseOptions = {},
  ): Promise<ChosenModel> {
    const { readLlmSettings } = await import("../llm/config.ts");
    const { chooseModel } = await import("../llm/choose.ts");
    const settings = readLlmSettings(this.storePath(flags), process.env);
    for (const warning of settings.warnings) this.note(`Warning: ${warning}`);
    return chooseModel(settings, options);
  }

  /** Texts do not leave the machine unasked, where there is someone to ask. */
  protected async askBeforeSending({ model }: ChosenModel, yes: boolean) {
    const { hostname } = new URL(model.info.server);
    const isHere = ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
    if (isHere || yes || !this.isInteractive) return;
    await this.confirm(`This sends texts to ${hostname} (${plain(model.info.name)}). Go on?`);
  }

  protected get isInteractive(): boolean {
    return Boolean(process.stdin.isTTY && process.stderr.isTTY) && !this.jsonEnabled();
  }

  /** Asks on the terminal. @throws CheeseError CANCELLED when the answer is no */
  protected async confirm(question: string): Promise<void> {
    const { createInterface } = await import("node:readline/promises");
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    try {
      const answer = await lines.question(`${question} [y/N] `, { signal: this.signal });
      if (!/^y(es)?$/i.test(answer.trim())) throw new CheeseError("CANCELLED", "not confirmed");
    } catch (cause) {
      if (cause instanceof CheeseError) throw cause;
      throw new CheeseError("CANCELLED", "not confirmed", { cause });
    } finally {
      lines.close();
    }
  }

  override async catch(
    error: Error & { exitCode?: number; oclif?: { exit?: number }; code?: string },
  ) {
    this.#progress?.end();
    this.#stopSpinner?.();
    if (error.code === "EEXIT") throw error;
    this.#isTold = true;
    const failure = this.#toFailure(error);
    process.exitCode = codes[failure.code].exit;
    if (this.jsonEnabled()) {
      process.stdout.write(masked(toJson(this.toErrorJson(failure))));
    } else {
      process.stderr.write(masked(this.renderError.failure(failure)));
    }
    if (process.env.DEBUG) process.stderr.write(masked(`${error.stack}\n`));
  }

  #toFailure(error: UsageError): CheeseError {
    // A command without arguments or flags of its own declares none.
    const { id, args = {}, flags = {}, baseFlags = {} } = this.ctor;
    return toFailure(error, { id, args, flags }, [...Object.keys(baseFlags), "json", "help"]);
  }

  /** The stock form takes a string apart with a regular expression, which a text of 16 MiB does not survive. */
  override logJson(json: unknown) {
    process.stdout.write(toJson(json));
  }

  override async finally(error: Error | undefined) {
    this.#progress?.end();
    this.#stopSpinner?.();
    const agents = this.#agents;
    this.#agents = [];
    for (const agent of agents) await agent.close();
    await super.finally(error);
  }

  /** The stock form prints the whole configuration, and the arguments with the token in them. */
  override toErrorJson(error: unknown): { error: object } {
    const failure = this.#toFailure(error as Error);
    const { code, message, hint } = failure;
    const facts = Object.fromEntries(
      (
        [
          "entry",
          "item",
          "line",
          "file",
          "offset",
          "maybeWritten",
          "plan",
          "problems",
          "written",
        ] as const
      )
        .filter((fact) => failure[fact] !== undefined)
        .map((fact) => [fact, failure[fact]]),
    );
    return { error: { code, message, hint, ...facts } };
  }
}

/** DEL and C1 controls too: JSON may escape what it need not. */
export function toJson(json: unknown): string {
  return `${JSON.stringify(json, null, 2)}\n`.replace(
    /[\u007f-\u009f]/g,
    (c) => `\\u00${c.charCodeAt(0).toString(16)}`,
  );
}

/** A message may quote an argument, and an argument may be a token. */
export function masked(text: string): string {
  return text.replace(TOKEN_FORM, "cheese_…");
}

/** Any error as one of ours. */
export function toFailure(
  error: UsageError,
  form: CommandForm | null = null,
  everywhere: string[] = [],
): CheeseError {
  if (error instanceof CheeseError) return error;
  if (error.oclif?.exit !== undefined) return usageFailure(error, form, everywhere);
  if (error.name === "AbortError") {
    return new CheeseError("CANCELLED", "interrupted", { cause: error });
  }
  return new CheeseError("UNEXPECTED", error.message, { cause: error });
}

function waitMs(seconds: string | undefined): number | undefined {
  if (seconds === undefined) return undefined;
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(seconds) ? Number(seconds) : Number.NaN;
  if (Number.isNaN(value))
    throw new CheeseError("USAGE", `--wait takes a number of seconds, got "${seconds}"`);
  return value * 1000;
}
