// Makes mutants: sources with one small thing changed, each of which some test should notice.

import { parseAst } from "rolldown/parseAst";

export interface Mutant {
  /** FILE: the line → the line as changed. Does not depend on where the line stands; equal ones are numbered. */
  id: string;
  /** As in "recall". */
  file: string;
  line: number;
  /** A test comes to it that comes to here: for an operator where its left side begins, which may settle the outcome. */
  from: number;
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

  const add = (at: number, end: number, text: string, from = at) => {
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
      from,
      at,
      end,
      text,
    });
  };

  const operator = (node: Node) => {
    const sign = node.operator as string;
    const left = node.left as Node;
    const right = node.right as Node;
    if (sign === "+" && [left, right].some(isText)) return;
    const at = source.indexOf(sign, left.end);
    if (at === -1 || at >= right.start) throw new Error(`${file}: no ${sign} behind ${left.end}`);
    for (const other of OPERATORS[sign] ?? []) add(at, at + sign.length, other, node.start);
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
            source
              .slice(expression.start, expression.end)
              .replace(/\+\+|--/, (found) => (found === "++" ? "--" : "++")),
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
    const end = lastOf(node) ?? last;
    for (const [key, value] of Object.entries(node)) {
      if (key === "key" && !node.computed) continue;
      for (const each of Array.isArray(value) ? value : [value]) {
        const child = isNode(each) ? withoutTypes(each) : null;
        if (child) visit(child, end);
      }
    }
  };

  visit(parseAst(source, { lang: "ts" }, `${file}.ts`) as unknown as Node, null);
  return mutants.sort((a, b) => a.at - b.at);
}

/** The statement that a function ends with; null where it is none. */
function lastOf({ type, body }: Node): Node | null {
  if (!type.includes("Function") || !isNode(body) || !Array.isArray(body.body)) return null;
  return (body.body.at(-1) as Node | undefined) ?? null;
}

/** What is left of a node when the types are gone; null where nothing is. */
function withoutTypes(node: Node): Node | null {
  let inner: unknown = node;
  while (isNode(inner) && inner.type.startsWith("TS")) inner = inner.expression;
  return isNode(inner) ? inner : null;
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
