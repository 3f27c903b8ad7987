// The front door: what a program may import, by name, and nothing more.

export type {
  Agent,
  EntryFilter,
  LongOptions,
  LotFilter,
  LotOptions,
  NewLot,
  RecallOptions,
} from "./agent.ts";
export type { NewMemory, ParentOrItem } from "./drafts.ts";
export { CheeseError, type Code, codes, hasCode } from "./errors.ts";
export type { Session } from "./session.ts";
export {
  type AgentFailure,
  type FindOptions,
  Store,
  type StoreOptions,
  type StoreWarning,
} from "./store.ts";
export type * from "./terms.ts";
export { decodeUtf8 } from "./text.ts";
export type { ImportSource } from "./transfer.ts";
