--- `ponder work URL --script FILE`: a worker of a queue in Redis.

local cli = require "ponder.cli.shared.main"
local confined = require "ponder.cli.shared.confined"
local host = require "ponder.core.host"
local limits = require "ponder.cli.shared.limits"
local logging = require "ponder.cli.shared.logging"
local model = require "ponder.model"
local policies = require "ponder.cli.shared.policies"
local queue = require "ponder.queue"
local quote = require "ponder.quote"
local redis = require "ponder.redis"
local remote = require "ponder.serve.queue.evaluation"
local scripts = require "ponder.serve.queue.script"
local sources = require "ponder.run.task.sources"
local worker = require "ponder.serve.queue.worker"

local BUDGETS = { "max_cost_per_job", "max_calls_per_job" }

local command = cli.command({ files = true, expects = { 0, 1, "at most one URL" } }, {
    { title = "Jobs",
        { "script", value = "FILE", files = true,
            help = "Lua file that returns the functions by name" },
        { "queue", value = "NAME", default = "default",
            help = "the queue to take jobs from (default: default)" },
        { "concurrency", value = "N", type = "integer", min = 1, max = 10000,
            help = "jobs at once (default: 16)" },
        { "lease", value = "TIME", type = "duration", unit = "ms", min = 1,
            help = "must exceed the time that a job computes without waiting (default: 60s)" },
        limits.RULES.cache,
    },
    { title = "Limits",
        { "max_cost_per_job", value = "USD", type = "number", min = 0,
            help = "dollars of each job" },
        { "max_calls_per_job", value = "N", type = "integer", min = 1,
            help = "model calls of each job" },
        { "max_memory_mb", value = "N", type = "integer", min = 1, max = 1 << 30,
            help = "memory limit in MiB, not counting what libraries take" },
    },
    { title = "Run log",
        { "log", value = "FILE", files = true, help = "log the jobs in FILE, new or from an "
            .. "earlier start (default: a new one in $XDG_STATE_HOME/ponder/)" },
        logging.RULES.keep,
        logging.RULES.sync,
    },
    { title = "Untrusted code", confined.OPTIONS },
})

command.summary = "run the jobs of a queue in Redis"

command.about = [[
ponder work [URL] --script FILE [OPTION...]

Runs jobs that ponder.queue has put into Redis, on any number of machines. URL is
redis://[user:password@]host[:port][/db], rediss://... (TLS) or redis+unix:///path?db=N; it
defaults to $PONDER_REDIS_URL. ?password_file=FILE reads the password from a file, ?ca_file=FILE
names CA certificates to trust, ?timeout=10s limits the wait for a reply. FILE returns a table of
functions:

  return { solve = function(item, index) return answer end }

or an evaluation (ponder eval FILE --workers URL).

When a worker is killed, another takes over its jobs once their lease has expired; replies that it
had paid for are not paid for again. After SIGTERM or Ctrl-C the worker finishes its jobs; a second
signal returns them to the queue. Exit status: 0; 1 when Redis refuses; 2 for a usage error.]]

local function say(line)
    io.stderr:write("ponder work: ", quote.terminal(line), "\n")
end

local function load_script(given)
    if not given.untrusted then
        host.set_script_directory(cli.directory_of(given.script))
        return scripts.load(given.script, remote.functions)
    end
    local functions, message = confined.load(given.script, "functions", nil, given)
    return functions and scripts.of(given.script, functions), message
end

-- Runs the jobs of a queue until it is stopped.
local function serve_queue(given, client, reader, script)
    local concurrency = given.concurrency or 16
    local one = worker.new { client = client, reader = reader, queue = given.queue,
        budget = { max_cost = given.max_cost_per_job, max_calls = given.max_calls_per_job },
        script = script, concurrency = concurrency, lease_ms = given.lease or 60000, say = say }
    local stop = sources.follow_signals({ "terminate", "interrupt" }, true, function()
        one:stop()
    end)
    say(("%s of %s at %s, %d at a time"):format(given.queue, given.script, client.name,
        concurrency))
    local ok, message = one:work()
    stop()
    client:close()
    reader:close()
    return ok and 0 or 1, not ok and message or nil
end

function command.run(given, operands, list)
    policies.print_to_stderr()
    cli.expect(given.script, "expected --script FILE, which returns functions")
    confined.check(given, BUDGETS)
    cli.refuse(queue.name_problem("--queue", given.queue))
    local client = cli.expect(redis.open(operands[1]))
    local reader = redis.open(operands[1])
    if given.max_memory_mb and not given.untrusted then
        host.limit_memory(given.max_memory_mb)
    end
    -- The log begins even without calls: each result carries what it has recorded.
    logging.begin(given, { command = "work", arguments = list, script = given.script },
        { adds = true, at_once = true })
    model.config() -- raises if it is broken
    model.share_limits(client)
    local script = cli.need(load_script(given))
    local _ <close> = limits.cache(given.cache)
    local pong, message, code = client:call "PING"
    if not pong and not redis.is_transient(code) then -- a wrong password, or Redis is too old
        return 1, message
    end
    return serve_queue(given, client, reader, script)
end

return command
