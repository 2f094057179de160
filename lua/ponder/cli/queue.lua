--- `ponder queue URL`: shows the queues of a Redis, live, and handles dead letters.

local amount = require "ponder.show.amount"
local cli = require "ponder.cli.shared.main"
local grid = require "ponder.show.grid"
local json = require "ponder.json"
local queues = require "ponder.queue"
local quote = require "ponder.quote"
local redis = require "ponder.redis"
local status = require "ponder.serve.queue.status"
local style = require "ponder.show.style"
local task = require "ponder.task"
local terminal = require "ponder.core.terminal"
local text = require "ponder.show.text"

local command = cli.command({ expects = { 0, 1, "at most one URL" } }, {
    { "queue", value = "NAME", help = "only this queue" },
    { "watch", modes = { "" }, help = "refresh every second (default: on a terminal)" },
    { "json", modes = { "", "--dead" }, help = "print one JSON object, once" },
    { "dead", help = "list dead letters: jobs that failed, or killed their worker, too often" },
    { "retry", value = "ID", help = "enqueue a dead letter again; `all`: all of the queue" },
    { "drop", value = "ID", help = "delete a dead letter; `all`: all of the queue; VERSION: the "
        .. "jobs for a version of the script" },
    { "purge", help = "delete the jobs and counters of a queue" },
})

command.summary = "show the queues in Redis, retry or drop dead letters"

command.about = [[
ponder queue [URL] [OPTION...]

Shows the queues that ponder.queue keeps in Redis: waiting and running jobs, workers, rates, the lag
(how long the oldest job has waited) and dead letters. URL: see ponder work --help; it defaults to
$PONDER_REDIS_URL.

  ponder queue --queue NAME --dead       jobs that have failed for good, and why
  ponder queue --queue NAME --retry all  run them again; replies stay paid for

A job needs a worker with the coordinator's version of the script. It names the versions that have
jobs, but no worker: start a worker with that script, or --drop VERSION.]]

local SAMPLE_S = 1
local VERSION_LENGTH = 16 -- of the codes of ponder.serve.queue.script; dead letters have 32
local MAX_ERROR = 1000 -- bytes

-------------------------------------------------------------------------------
-- Figures

-- The figures of one queue or of all.
local function read_figures(client, name)
    local list = {}
    for i, one in ipairs(name and { name } or cli.need(status.queues(client))) do
        list[i] = cli.need(status.figures(client, one))
    end
    return list
end

local function span(seconds)
    return seconds and amount.seconds(seconds) or "-"
end

local function line_of_worker(worker)
    local name = quote.line(worker.name)
    if worker.problem then
        return ("  %s ended: %s"):format(name, quote.line(worker.problem))
    end
    return ("  %s %d of %d running, %d done, %d failed, %d dead, up %s%s"):format(name,
        worker.running or 0, worker.concurrency or 0, worker.done or 0, worker.failed or 0,
        worker.dead or 0, span(os.time() - (worker.started_at or os.time())),
        worker.is_silent and (", silent for " .. span(worker.silent_s)) or "")
end

local COLUMNS = { { "QUEUE", least = 8 }, { "WAITING", right = true }, { "RUNNING", right = true },
    { "JOBS/S", right = true, drop = 3 }, { "DONE", right = true, drop = 2 },
    { "FAILED", right = true, drop = 4 }, { "DEAD", right = true },
    { "LAG", right = true, drop = 1 } }

local function draw(list, out)
    local rows, lines = {}, {}
    for i, figures in ipairs(list) do
        local totals = figures.totals
        rows[i] = { text.line(figures.queue), tostring(figures.waiting), tostring(figures.running),
            ("%.1f"):format(figures.rate), amount.count(totals.done), amount.count(totals.failed),
            tostring(figures.dead), span(figures.oldest_s) }
    end
    local table_of, columns = grid.new(COLUMNS, rows, out), out:size()
    lines[1] = list[1] and table_of:head() or "no queue"
    for i, figures in ipairs(list) do
        lines[#lines + 1] = table_of:line(rows[i])
        for _, worker in ipairs(figures.workers) do
            lines[#lines + 1] = text.cut(line_of_worker(worker), columns, out:mark())
        end
        for _, version in ipairs(figures.versions) do
            local line = ("  %s for version %s of %s, which no worker has (--drop %s)"):format(
                quote.count(version.waiting + version.running, "job"), quote.line(version.code),
                quote.line(version.script or "?"), quote.line(version.code))
            lines[#lines + 1] = version.workers == 0 and text.cut(line, columns, out:mark()) or nil
        end
    end
    return table.concat(lines, "\n")
end

local CLEAR = "\27[H\27[2J"

local function show(client, given)
    local before = {} -- totals by queue
    for _, figures in ipairs(read_figures(client, given.queue)) do
        before[figures.queue] = figures.totals
    end
    local out = style.of(1)
    local live = given.watch or not given.json and terminal.is_terminal(1)
    repeat
        task.sleep(SAMPLE_S)
        local list = read_figures(client, given.queue)
        for _, figures in ipairs(list) do
            local is = figures.totals
            local was = before[figures.queue] or is
            figures.rate = (is.done + is.failed - was.done - was.failed) / SAMPLE_S
            before[figures.queue] = is
        end
        if given.json then
            cli.print_json { queues = json.array(list) }
        else
            io.stdout:write(live and CLEAR or "", draw(list, out), "\n")
        end
        io.stdout:flush()
    until not live
    return 0
end

-------------------------------------------------------------------------------
-- Dead letters

-- Retries, drops or lists dead letters.
local function handle_dead(client, given)
    local letters = cli.need(status.dead_letters(client, given.queue))
    local wanted, count = given.retry or given.drop, 0
    if given.drop and #given.drop == VERSION_LENGTH then
        count = cli.need(status.drop_version(client, given.queue, given.drop))
        cli.expect(count > 0, ("no job for version %s in the queue %s"):format(given.drop,
            given.queue))
        print(("%d dropped"):format(count))
        return 0
    elseif wanted then
        local handle = given.retry and status.retry or status.drop
        for _, letter in ipairs(letters) do
            if letter.id == wanted or wanted == "all" and not (letter.is_damaged and given.retry)
            then
                count = count + cli.need(handle(client, given.queue, letter))
            end
        end
        cli.expect(count > 0 or wanted == "all", ("no dead letter %s in the queue %s"):format(
            wanted, given.queue))
        print(("%d %s"):format(count, given.retry and "enqueued again" or "dropped"))
        return 0
    elseif given.json then
        cli.print_json { dead = json.array(letters) }
        return 0
    end
    for _, letter in ipairs(letters) do
        print(("%s  %s  %s  %s\n    item   %s\n    error  %s"):format(
            quote.line(letter.id), amount.when(letter.at),
            quote.line(letter.name or letter.call or "?"), quote.count(letter.attempts, "attempt"),
            quote.line(letter.item),
            quote.line(letter.error:match "^[^\n]*", MAX_ERROR)))
    end
    print(quote.count(#letters, "dead letter"))
    return 0
end

function command.run(given, operands)
    cli.refuse(given.watch and given.json and "--watch or --json, not both")
    local mode = ""
    for _, name in ipairs { "dead", "retry", "drop", "purge" } do
        cli.refuse(given[name] and mode ~= "" and ("%s or --%s, not both"):format(mode, name))
        mode = given[name] and "--" .. name or mode
    end
    cli.check_modes(command, given, mode)
    cli.expect(given.queue or mode == "", "expected --queue NAME")
    cli.refuse(given.queue and queues.name_problem("--queue", given.queue))
    local client <close> = cli.expect(redis.open(operands[1]))
    if given.purge then
        cli.need(status.purge(client, given.queue))
        print(("the queue %s is empty"):format(given.queue))
        return 0
    end
    return (mode == "" and show or handle_dead)(client, given)
end

return command
