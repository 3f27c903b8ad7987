// Runs once before all tests: the tests are worth nothing on another Node than the pinned one.

export function setup() {
  const [major = 0] = process.versions.node.split(".").map(Number);
  if (major < 24) {
    throw new Error(
      `the tests run on the Node that package.json pins, and this is ${process.version}: npm ci`,
    );
  }
}
