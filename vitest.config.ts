import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/setup.ts"],
    testTimeout: 120_000,
    disableConsoleIntercept: true,
    pool: "forks",
    maxWorkers: 2,
  },
});
