// Makes mutants: sources with one small thing changed, each of which some test should notice.

import { parseAst } from "rolldown/parseAst";

export interface Mutant {
  /** FILE: the line → the line as changed. Does not depend on where the line stands; equal ones are numbered. */
  id: string;
  /** As in "recall". */
  file: string;
  line: number;
  /** What stands in the source from here … */
  at: number;
  /** … to here is replaced by this. */
  end: number;
  text: string;
}

/** A node of the tree, as far as it is looked at here. */
interface Node {
  type: string;
  start: number;
  end: number;
  [key: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string";

/** A bound that is one off, and the contrary. */
const OPERATORS: Record<string, string[]> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "===": ["!=="],
  "!==": ["==="],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  "<<": [">>>"],
  ">>": ["<<"],
  ">>>": ["<<"],
  "&": ["|"],
  "|": ["&"],
  "^": ["|"],
  "&&": ["||"],
  "||": ["&&"],
  "+=": ["-="],
  "-=": ["+="],
  "*=": ["/="],
  "|=": ["&="],
  "&=": ["|="],
  ">>>=": ["<<="],
};
const COMPARISONS = new Set(["<", "<=", ">", ">=", "===", "!=="]);

/** Every mutant of a source, in the order of its text. Types, comments, imports and strings are left alone. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const mutants: Mutant[] = [];
  const ids = new Map<string, number>();

  const add = (at: number, end: number, text: string) => {
    const lineAt = source.lastIndexOf("\n", at - 1) + 1;
    const newline = source.indexOf("\n", at);
    const lineEnd = newline === -1 ? source.length : newline;
    const line = source.slice(lineAt, lineEnd).trim();
    const changed = `${source.slice(lineAt, at)}${text}${end < lineEnd ? source.slice(end, lineEnd) : ""}`;
    const plain = `${file}: ${line} → ${changed.trim()}`;
    const number = (ids.get(plain) ?? 0) + 1;
    ids.set(plain, number);
    mutants.push({
      id: number === 1 ? plain : `${plain} #${number}`,
      file,
      line: source.slice(0, at).split("\n").length,
      at,
      end,
      text,
    });
  };

  const operator = (node: Node) => {
    const {
      operator: sign,
      left,
      right,
    } = node as unknown as Record<"left" | "right", Node> & {
      operator: string;
    };
    if (sign === "+" && [left, right].some(isText)) return;
    const at = source.indexOf(sign, left.end);
    if (at === -1 || at >= right.start) throw new Error(`${file}: no ${sign} behind ${left.end}`);
    for (const other of OPERATORS[sign] ?? []) add(at, at + sign.length, other);
  };

  const condition = (test: unknown) => {
    if (!isNode(test) || test.type === "UnaryExpression") return;
    // Those have their contrary already.
    if (test.type === "BinaryExpression" && COMPARISONS.has(test.operator as string)) return;
    add(test.start, test.end, `!(${source.slice(test.start, test.end)})`);
  };

  const literal = (node: Node) => {
    const { value } = node;
    if (typeof value === "boolean") add(node.start, node.end, String(!value));
    if (typeof value !== "number" || !Number.isInteger(value)) return;
    add(node.start, node.end, String(value + 1));
    if (value > 0) add(node.start, node.end, String(value - 1));
  };

  const visit = (node: Node, last: Node | null) => {
    switch (node.type) {
      case "ImportDeclaration":
      case "ExportAllDeclaration":
        return;
      case "BinaryExpression":
      case "LogicalExpression":
      case "AssignmentExpression":
        operator(node);
        break;
      case "UpdateExpression":
        break;
      case "UnaryExpression":
        if (node.operator === "!") add(node.start, node.start + 1, "");
        break;
      case "IfStatement":
      case "ConditionalExpression":
      case "WhileStatement":
      case "ForStatement":
        condition(node.test);
        break;
      case "Literal":
        literal(node);
        break;
      case "ExpressionStatement": {
        const expression = node.expression as Node;
        const call = expression.type === "AwaitExpression" ? expression.argument : expression;
        if (isNode(call) && call.type === "CallExpression" && !isSuper(call.callee))
          add(node.start, node.end, ";");
        // A counter, unless it keeps a loop going.
        if (expression.type === "UpdateExpression")
          add(
            expression.start,
            expression.end,
            source.slice(expression.start, expression.end).replace("++", "--"),
          );
        break;
      }
      case "ReturnStatement":
        // The last one of a function is looked at by whoever called it.
        if (node === last) break;
        add(node.start, node.end, ";");
        break;
      case "ContinueStatement":
      case "BreakStatement":
      case "ThrowStatement":
        add(node.start, node.end, ";");
        break;
    }
    const body = node.type === "BlockStatement" ? null : (node.body as Node | undefined);
    const within =
      node.type.includes("Function") && body ? (body.body as Node[] | undefined)?.at(-1) : null;
    for (const [key, value] of Object.entries(node)) {
      if (key === "key" && !node.computed) continue;
      for (const child of Array.isArray(value) ? value : [value]) {
        if (!isNode(child)) continue;
        if (child.type.startsWith("TS")) {
          // What is left of it when the types are gone.
          const inner = child.expression;
          if (isNode(inner) && !inner.type.startsWith("TS")) visit(inner, null);
          else if (isNode(inner)) visit({ type: "Types", start: 0, end: 0, inner }, null);
          continue;
        }
        visit(child, within ?? last);
      }
    }
  };

  visit(parse(source, file), null);
  // "a ?? b && c" is no program.
  const isWhole = (mutant: Mutant) =>
    !["&&", "||"].includes(mutant.text) || parses(mutated(source, mutant));
  return mutants.filter(isWhole).sort((a, b) => a.at - b.at);
}

function parse(source: string, file: string): Node {
  return parseAst(source, { lang: "ts" }, `${file}.ts`) as unknown as Node;
}

function parses(source: string): boolean {
  try {
    parse(source, "mutant");
    return true;
  } catch {
    return false;
  }
}

function isText(node: Node): boolean {
  return (
    node.type === "TemplateLiteral" || (node.type === "Literal" && typeof node.value === "string")
  );
}

function isSuper(callee: unknown): boolean {
  return isNode(callee) && callee.type === "Super";
}

/** The source with the mutant in it. */
export function mutated(source: string, { at, end, text }: Mutant): string {
  return source.slice(0, at) + text + source.slice(end);
}
