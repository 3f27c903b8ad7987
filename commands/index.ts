// The commands by their names: the entry of the command line. A file here that is not in the table is no command.

import type { Commands } from "../src/cli/start.ts";
import AgentCreate from "./agent/create.ts";
import AgentDelete from "./agent/delete.ts";
import AgentList from "./agent/list.ts";
import Ask from "./ask.ts";
import Compact from "./compact.ts";
import Completion from "./completion.ts";
import Corroborate from "./corroborate.ts";
import Demo from "./demo.ts";
import Doctor from "./doctor.ts";
import Export from "./export.ts";
import Find from "./find.ts";
import History from "./history.ts";
import Import from "./import.ts";
import Learn from "./learn.ts";
import List from "./list.ts";
import Lot from "./lot.ts";
import Mcp from "./mcp.ts";
import Recall from "./recall.ts";
import Remember from "./remember.ts";
import Show from "./show.ts";
import Stats from "./stats.ts";
import Verify from "./verify.ts";
import Why from "./why.ts";

export { start } from "../src/cli/start.ts";

export const COMMANDS: Commands = {
  "agent:create": AgentCreate,
  "agent:delete": AgentDelete,
  "agent:list": AgentList,
  ask: Ask,
  compact: Compact,
  completion: Completion,
  corroborate: Corroborate,
  demo: Demo,
  doctor: Doctor,
  export: Export,
  find: Find,
  history: History,
  import: Import,
  learn: Learn,
  list: List,
  lot: Lot,
  mcp: Mcp,
  recall: Recall,
  remember: Remember,
  show: Show,
  stats: Stats,
  verify: Verify,
  why: Why,
};
