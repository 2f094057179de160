--- What a run log holds: one run in one SQLite file.
---
---     run        the run: one row            calls      every request to a model, and its reply
---     sessions   the processes that ran it   attempts   those of its attempts that failed
---     files      scripts, prompts, models    effects    what else came from outside: tools...
---     searches   searches and machines       tape       what reached the script, in order
---     nodes      their trees                 readings   what its clocks said
---     edges      further edges of graphs     events     of searches and machines
---
--- Times are seconds since 1970, UTC; money is in USD, and NULL where the price is unknown; columns
--- that hold JSON say so. Calls and effects are numbered in the order in which they were asked for.

local schema = {}

--- Marks the file as a run log: "pndr".
schema.APPLICATION_ID = 0x706e6472

--- PRAGMA user_version.
schema.VERSION = 1

schema.SQL = [[
CREATE TABLE run (
  id TEXT NOT NULL,             -- 16 hex digits
  command TEXT NOT NULL,        -- run, tot, got, trm, cot, chat
  arguments TEXT NOT NULL,      -- JSON list, as typed
  script TEXT,                  -- as typed; '-' is standard input, '-e' is code
  directory TEXT,               -- the working directory
  input TEXT,                   -- what was read from standard input
  seed INTEGER NOT NULL,        -- of math.random
  options TEXT NOT NULL,        -- JSON object: environment variables that count
  versions TEXT NOT NULL,       -- JSON object: ponder, lua, curl, sqlite
  started_at REAL NOT NULL,
  ended_at REAL,                -- NULL: it runs, or was killed
  status TEXT,                  -- completed, failed, interrupted
  exit_status INTEGER,
  answer TEXT,                  -- JSON, as --json prints it
  error TEXT,
  source TEXT,                  -- path of the log that it was forked from
  saved_calls INTEGER,          -- answered from that log, or from a cache
  saved_cost REAL,
  incomplete INTEGER            -- 1: more came in before there was a file than is kept
);
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,           -- run, resume, fork
  pid INTEGER, host TEXT,
  started_at REAL NOT NULL,
  ended_at REAL
);
CREATE TABLE files (
  path TEXT PRIMARY KEY,        -- as it was opened
  absolute TEXT,
  kind TEXT NOT NULL,           -- script, module, prompts, model, tools, data
  hash TEXT NOT NULL,           -- SHA-256, hexadecimal
  text TEXT NOT NULL
);
CREATE TABLE calls (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  identity TEXT NOT NULL,       -- SHA-256 of provider, sample number and request
  occurrence INTEGER NOT NULL,  -- 2 for the second equal request
  provider TEXT NOT NULL, model TEXT NOT NULL,
  sample INTEGER NOT NULL,      -- number of the first sample
  samples INTEGER NOT NULL,     -- how many were asked for
  request TEXT NOT NULL,        -- JSON, the body that was sent
  metadata TEXT,                -- JSON
  within INTEGER,               -- effects.id of the tool that asked
  search INTEGER, node, purpose TEXT, -- who asked: searches.id, nodes.id, evaluate...
  origin TEXT,                  -- live, log (the source of a fork), cache
  asked_at REAL NOT NULL, answered_at REAL,
  status TEXT,                  -- ok, error, cancelled; NULL: no answer was kept
  reply TEXT,                   -- JSON: samples, usage, model, id, raw
  code TEXT, message TEXT,      -- of an error
  latency_ms REAL, time_to_first_ms REAL, attempts INTEGER,
  input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER,
  cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER,
  cost REAL
);
CREATE TABLE attempts (         -- those that failed
  call INTEGER NOT NULL, attempt INTEGER NOT NULL, at REAL NOT NULL,
  status INTEGER,               -- of HTTP
  code TEXT, message TEXT, queue_ms REAL, total_ms REAL,
  retry_in_ms REAL              -- NULL: it was not tried again
);
CREATE TABLE effects (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  kind TEXT NOT NULL,           -- tool, outside
  name TEXT NOT NULL,
  key TEXT NOT NULL,            -- JSON: what it was asked
  occurrence INTEGER NOT NULL,
  within INTEGER,               -- effects.id of the tool that asked
  search INTEGER,
  asked_at REAL NOT NULL, answered_at REAL,
  status TEXT,                  -- ok, error (it raised), cancelled
  value TEXT,                   -- JSON list: what it returned
  message TEXT
);
CREATE TABLE tape (
  seq INTEGER PRIMARY KEY,
  round INTEGER NOT NULL,       -- how many rounds of tasks came before
  kind TEXT NOT NULL,           -- call, effect, timers
  what                          -- calls.id, effects.id; the time up to which timers were due
);
CREATE TABLE readings (
  seq INTEGER PRIMARY KEY,
  clock TEXT NOT NULL,          -- now, time, cpu, seed
  readings BLOB NOT NULL        -- numbers of 8 bytes, little-endian
);
CREATE TABLE searches (         -- also runs of the machines
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,           -- bfs, dfs, beam, best_first, tot, got, trm, cot
  question TEXT, options TEXT,  -- options: JSON object
  model TEXT,
  started_at REAL NOT NULL, ended_at REAL,
  status TEXT,                  -- completed, error
  reason TEXT,                  -- why it ended
  best,                         -- nodes.id
  score REAL, answer TEXT,
  stats TEXT                    -- JSON object
);
CREATE TABLE nodes (
  search INTEGER NOT NULL, id NOT NULL,
  parent, depth INTEGER, score REAL,
  terminal INTEGER,
  status TEXT,
  text TEXT,                    -- a thought; a state, as JSON where it is no text
  best INTEGER,                 -- 1: on the path to the best node
  PRIMARY KEY (search, id)
) WITHOUT ROWID;
CREATE TABLE edges (            -- those of graphs that are not a node's parent
  search INTEGER NOT NULL, source NOT NULL, target NOT NULL, kind TEXT, score REAL
);
CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  search INTEGER,
  name TEXT NOT NULL,
  data TEXT                     -- JSON object
);
]]

return schema
