--- The tables of a run log: runs in one SQLite file.
---
---     runs       one row for each run        calls      requests to models, with their replies
---     sessions   the processes that ran it   attempts   failed attempts of calls
---     files      scripts, prompts, models    effects    results of tools and of log.record
---     searches   searches and machines       batches    of calls, at half the price
---     nodes      their trees                 tape       inputs of the script, in order
---     edges      further edges of graphs     readings   clock readings
---     events     of searches and machines
---
--- Rows belong to a run by `run` and are numbered within it, calls and effects in the order asked.
--- Times are seconds since 1970, UTC; money is in USD, NULL if the price is unknown; columns that
--- hold JSON say so. Columns of type ANY hold text, bytes that are not UTF-8, or what their
--- comments say.

local schema = {}

--- Marks the file as a run log: "pndr".
schema.APPLICATION_ID = 0x706e6472

--- PRAGMA user_version.
schema.VERSION = 2

schema.SQL = [[
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,       -- from 1; FILE#2 is the second
  uid TEXT NOT NULL,            -- 16 hex digits
  parent INTEGER,               -- runs.id of the run within which it began
  within INTEGER,               -- effects.id of the tool that called it there
  name ANY,
  labels TEXT,                  -- JSON object
  command TEXT NOT NULL,        -- run, tot, got, trm, cot, chat
  arguments TEXT NOT NULL,      -- JSON list, as typed
  script ANY,                   -- as typed; '-' is standard input, '-e' is code
  directory ANY,                -- the working directory
  input ANY,                    -- what was read from standard input; of a request, its fields
  seed INTEGER NOT NULL,        -- of math.random
  options TEXT NOT NULL,        -- JSON object: environment variables that matter
  versions TEXT NOT NULL,       -- JSON object: ponder, lua, curl, sqlite
  mac TEXT,                     -- HMAC-SHA256 of the above and its files: ponder.run.log.trust
  started_at REAL NOT NULL,
  ended_at REAL,                -- NULL: it is running, or was killed
  status TEXT,                  -- completed, failed, interrupted; cancelled by the run around it;
                                -- killed, as the next process to add a run found
  exit_status INTEGER,
  answer TEXT,                  -- JSON, as --json prints it
  error ANY,
  source ANY,                   -- path of the log that it was forked from
  saved_calls INTEGER,          -- answered from that log, or from a cache
  saved_cost REAL,
  incomplete INTEGER            -- 1: too much happened before its first call to be logged
) STRICT;
CREATE INDEX runs_by_uid ON runs (uid);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE TABLE sessions (
  run INTEGER NOT NULL DEFAULT 1, id INTEGER NOT NULL,
  kind TEXT NOT NULL,           -- run, resume, fork
  pid INTEGER, host ANY,
  started_at REAL NOT NULL,
  ended_at REAL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE files (
  run INTEGER NOT NULL DEFAULT 1,
  path ANY NOT NULL,            -- as it was opened
  absolute ANY,
  kind TEXT NOT NULL,           -- script, module, prompts, model, tools, data
  hash TEXT NOT NULL,           -- SHA-256, hexadecimal
  text ANY NOT NULL,
  PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE calls (
  run INTEGER NOT NULL DEFAULT 1, id INTEGER NOT NULL,
  session INTEGER NOT NULL,
  identity TEXT NOT NULL,       -- SHA-256 of provider, sample number and request
  occurrence INTEGER NOT NULL,  -- 2 for the second equal request
  provider ANY NOT NULL, model ANY NOT NULL,
  sample INTEGER NOT NULL,      -- number of the first sample
  samples INTEGER NOT NULL,     -- how many were requested
  request TEXT NOT NULL,        -- JSON, the body that was sent
  metadata TEXT,                -- JSON
  within INTEGER,               -- effects.id of the tool that asked
  search INTEGER, node ANY, purpose ANY, -- who asked: searches.id, nodes.id, evaluate...
  origin TEXT,                  -- live, log (the source of a fork), cache
  asked_at REAL NOT NULL,
  queued_at REAL, sent_at REAL, -- of the last attempt: when it was queued, and sent
  answered_at REAL,
  status TEXT,                  -- ok, error, cancelled; NULL: not answered yet
  reply TEXT,                   -- JSON: samples, usage, model, id, raw
  code ANY, message ANY,        -- of an error
  latency_ms REAL, time_to_first_ms REAL, attempts INTEGER,
  input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER,
  cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER,
  cost REAL,
  PRIMARY KEY (run, id)
) STRICT;
CREATE INDEX calls_by_identity ON calls (run, identity, within, occurrence);
CREATE INDEX calls_by_node ON calls (run, search, node) WHERE search IS NOT NULL;
CREATE TABLE attempts (         -- those that failed
  run INTEGER NOT NULL DEFAULT 1,
  call INTEGER NOT NULL, attempt INTEGER NOT NULL,
  at REAL NOT NULL,             -- when it failed
  status INTEGER,               -- of HTTP
  code ANY, message ANY, queue_ms REAL, total_ms REAL,
  retry_in_ms REAL              -- NULL: it was not tried again
) STRICT;
CREATE INDEX attempts_by_call ON attempts (run, call, attempt);
CREATE TABLE batches (
  run INTEGER NOT NULL DEFAULT 1,
  key TEXT NOT NULL,            -- within the ids of its lines: ponder-KEY-N
  model ANY NOT NULL,
  calls TEXT NOT NULL,          -- JSON: [calls.run, calls.id] of each line
  asked_at REAL NOT NULL,       -- before it was sent
  batch ANY,                    -- the service's id; NULL: its answer had not come
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE effects (
  run INTEGER NOT NULL DEFAULT 1, id INTEGER NOT NULL,
  session INTEGER NOT NULL,
  kind TEXT NOT NULL,           -- tool, outside
  name ANY NOT NULL,
  key TEXT NOT NULL,            -- JSON: its input
  occurrence INTEGER NOT NULL,
  within INTEGER,               -- effects.id of the tool that asked
  search INTEGER,
  asked_at REAL NOT NULL, answered_at REAL,
  status TEXT,                  -- ok, error (it raised), cancelled
  value TEXT,                   -- JSON list: what it returned
  message ANY,
  PRIMARY KEY (run, id)
) STRICT;
CREATE INDEX effects_by_key ON effects (run, kind, name, key, within, occurrence);
CREATE TABLE tape (
  run INTEGER NOT NULL DEFAULT 1, seq INTEGER NOT NULL,
  round INTEGER NOT NULL,       -- how many rounds of tasks came before
  kind TEXT NOT NULL,           -- call, effect, run, timers
  what ANY,                     -- calls.id, effects.id, runs.id; the time when timers were due
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE readings (
  run INTEGER NOT NULL DEFAULT 1,
  clock TEXT NOT NULL,          -- now, time, cpu, seed
  seq INTEGER NOT NULL,
  readings ANY NOT NULL,        -- numbers of 8 bytes, little-endian
  PRIMARY KEY (run, clock, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE searches (         -- also runs of the machines
  run INTEGER NOT NULL DEFAULT 1, id INTEGER NOT NULL,
  kind TEXT NOT NULL,           -- bfs, dfs, beam, best_first, tot, got, trm, cot
  question ANY, options TEXT,   -- options: JSON object
  model ANY,
  started_at REAL NOT NULL, ended_at REAL,
  status TEXT,                  -- completed, error
  reason ANY,                   -- why it ended
  best ANY,                     -- nodes.id
  score REAL, answer ANY,
  stats TEXT,                   -- JSON object
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE nodes (
  run INTEGER NOT NULL DEFAULT 1, search INTEGER NOT NULL, id ANY NOT NULL, -- a number, or n1...
  parent ANY, depth INTEGER, score REAL,
  terminal INTEGER,
  status TEXT,
  text ANY,                     -- a thought; a state, as JSON unless it is text
  best INTEGER,                 -- 1: on the path to the best node
  PRIMARY KEY (run, search, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE edges (            -- those of graphs that are not a node's parent
  run INTEGER NOT NULL DEFAULT 1, search INTEGER NOT NULL,
  source ANY NOT NULL, target ANY NOT NULL, kind TEXT, score REAL
) STRICT;
CREATE INDEX edges_by_search ON edges (run, search);
CREATE TABLE events (
  run INTEGER NOT NULL DEFAULT 1, id INTEGER NOT NULL,
  at REAL NOT NULL,
  search INTEGER,
  name ANY NOT NULL,
  data TEXT,                    -- JSON object
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
]]

---@class ponder.log.Column
---@field name string
---@field kind "INTEGER"|"REAL"|"TEXT"|"ANY"
---@field needed boolean it is NOT NULL

--- schema.TABLES: the names of the tables, referenced ones first. schema.COLUMNS: the columns of
--- each table (ponder.log.Column), in order and by name.
schema.TABLES, schema.COLUMNS = {}, {}
for name, body in schema.SQL:gsub("%-%-[^\n]*", ""):gmatch "CREATE TABLE (%l+) (%b())" do
    local columns = {}
    for definition in body:sub(2, -2):gmatch "[^,]+" do
        local column, kind = definition:match "^%s*([%l_]+) (%u+)"
        if column then
            columns[column] = { name = column, kind = kind,
                needed = definition:find("NOT NULL", 1, true) ~= nil }
            columns[#columns + 1] = columns[column]
        end
    end
    schema.COLUMNS[name], schema.TABLES[#schema.TABLES + 1] = columns, name
end

--- readings.clock
schema.CLOCKS = { "now", "time", "cpu", "seed" }

return schema
