#!/bin/sh
# The MCP Inspector's command line against the built `cheesedb mcp`, in each era of the protocol: lists the tools with strict
# schema checks, calls each of them, and sees a refusal. Run it with: sh test/inspector.sh
#
# It is no dependency, since it brings 120 packages and 111 MB: it is installed into a folder that goes when this ends.
# INSPECTOR names a folder that has it in its node_modules already.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
PATH="$root/node_modules/.bin:$PATH"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${INSPECTOR:-}" ]; then
  INSPECTOR="$work/inspector"
  npm install --silent --no-audit --no-fund --prefix "$INSPECTOR" @modelcontextprotocol/inspector@2.12.0
fi
# It writes there.
export HOME="$work" MCP_CATALOG_PATH="$work/catalog" CHEESEDB_DIR="$work/store"

inspect() {
  "$INSPECTOR/node_modules/.bin/mcp-inspector" --cli \
    node "$root/bin/run.js" mcp alice --store "$CHEESEDB_DIR" --format json --protocol-era "$era" "$@"
}

# expect EXIT TEXT COMMAND…: the command ends with EXIT, and its output holds TEXT.
expect() {
  code=$1 text=$2 got=0
  shift 2
  said=$("$@" 2>&1) || got=$?
  if [ "$got" != "$code" ] || ! printf '%s' "$said" | grep -qF "$text"; then
    printf 'not ok: %s\n  expected exit %s and %s\n  got exit %s and %s\n' "$*" "$code" "$text" "$got" "$said" >&2
    exit 1
  fi
  printf 'ok: %s %s\n' "$era" "$*"
}

call() { inspect --method tools/call --tool-name "$@"; }

for era in legacy auto modern; do
  rm -rf "$CHEESEDB_DIR"
  node bin/run.js agent create alice > /dev/null
  expect 0 '"recall_bad_source"' inspect --method tools/list --strict
  expect 0 '"id":1' call add_source --tool-arg label=user_message --tool-arg 'text=I live in Pune'
  expect 0 '"id":2' call add_source --tool-arg label=web_page --tool-arg text=rain --tool-arg uri=https://example.com
  expect 0 '"id":3' call remember --tool-arg 'text=user lives in Pune' --tool-arg 'from=[[1],[2]]'
  expect 0 '"id":3' call list_memories --tool-arg query=Pune --tool-arg limit=5
  expect 0 '"support":[{"id":1' call explain_memory --tool-arg id=3
  expect 5 UNKNOWN_PARENT call remember --tool-arg text=x --tool-arg 'from=[[9]]'
  expect 0 '"removed":[3]' call recall_bad_source --tool-arg 'ids=[1,2]' --tool-arg mode=fair
  plan=$(inspect --method tools/call --tool-name recall_bad_source --tool-arg 'ids=[1,2]' --tool-arg mode=fair |
    grep -o 'fair-untrusted-[0-9a-f]*' | head -n 1)
  expect 0 '"dryRun":false' call recall_bad_source --tool-arg 'ids=[1,2]' --tool-arg mode=fair --tool-arg "plan=$plan"
  expect 0 '"killedBy"' call explain_memory --tool-arg id=3
  expect 0 '"memories":[]' call list_memories
  expect 5 PLAN_STALE call recall_bad_source --tool-arg 'ids=[1,2]' --tool-arg mode=fair --tool-arg "plan=$plan"
done
