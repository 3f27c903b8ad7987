// The oldest Node that will do, and what is said of an older one: to a program, on the command line, and by doctor.
//
// Imports nothing and is read by any Node: the command line asks it before anything else is loaded.

const MAJOR_MIN = 22;
const MINOR_MIN = 16;

export const NODE_HINT = "Install a current Node from nodejs.org.";

/** What is wrong with a version of Node; null if it will do. */
export function nodeProblem(version: string = process.versions.node): string | null {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isEnough = major > MAJOR_MIN || (major === MAJOR_MIN && minor >= MINOR_MIN);
  return isEnough
    ? null
    : `cheesedb needs Node ${MAJOR_MIN}.${MINOR_MIN} or newer, and this is ${version}`;
}
