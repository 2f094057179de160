--- `ponder log`: the runs that are kept.

local amount = require "ponder.report.amount"
local args = require "ponder.args"
local cli = require "ponder.cli"
local grid = require "ponder.report.grid"
local json = require "ponder.json"
local kept = require "ponder.log.kept"
local options = require "ponder.options"
local reader = require "ponder.log.reader"
local state = require "ponder.state"
local style = require "ponder.report.style"
local text = require "ponder.report.text"

local RULES = {
    json = { help = "print a line of JSON for each run" },
    limit = { value = "N", type = "integer", min = 1, default = 20,
        help = "how many at most (default: 20)" },
}

local ORDER = { "limit", "json" }

local log = { rules = RULES, order = ORDER }

log.summary = "list the runs that are kept"

log.usage = [[
ponder log [OPTION...]

Lists the runs in $XDG_STATE_HOME/ponder (~/.local/state/ponder), the newest first: when, how they
ended, what they took. A run without an end is running while a process has its log, else killed. $?
is a price that is not known. ponder show N says more. Files that are damaged have no number; they
are removed as the oldest runs are (--keep).

]] .. args.help(RULES, ORDER)

local COLORS = { completed = "green", failed = "red", killed = "red", damaged = "red",
    interrupted = "yellow", running = "bold" }

local NARROW = 60

local function damaged(file, message)
    return { name = file.name, path = file.path, bytes = file.bytes, status = "damaged",
        command = "", started_at = file.started_at, calls = 0, errors = 0, error = message }
end

-- What a run took, or nil and what is wrong with its log.
local function read(file)
    local opened <close>, message = reader.open(file.path)
    if not opened then
        return nil, message
    end
    local run, totals = opened:run(), opened:totals()
    return { name = file.name, path = file.path, bytes = file.bytes,
        status = opened:state(), command = amount.command(run), started_at = run.started_at,
        ended_at = run.ended_at, exit_status = run.exit_status,
        duration_s = amount.duration(run, totals.last_at), calls = totals.calls,
        errors = totals.errors, total_tokens = totals.total_tokens, cost = totals.cost,
        unpriced_calls = totals.unpriced, saved_calls = run.saved_calls,
        saved_cost = run.saved_cost }
end

local function look(files, limit)
    local list, number = {}, 0
    for i = 1, math.min(#files, limit) do
        local file = files[i]
        local ok, found, message = true, nil, file.damage
        if not message then
            number = number + 1
            ok, found, message = pcall(read, file)
        end
        list[i] = ok and found or damaged(file, ok and message or found)
        list[i].number = not file.damage and number or nil
    end
    return list
end

local function print_table(list)
    local out = style.of(1)
    local short = out.is_terminal and out:size() < NARROW
    local rows = {}
    for i, run in ipairs(list) do
        rows[i] = { run.number and ("%d"):format(run.number) or "-",
            amount.when(run.started_at, short and "%m-%d %H:%M" or "%Y-%m-%d %H:%M"),
            { run.status, COLORS[run.status] }, amount.count(run.calls),
            run.total_tokens and amount.count(run.total_tokens) or "-",
            run.error and "-"
                or amount.short_cost { cost = run.cost, unpriced = run.unpriced_calls },
            run.duration_s and amount.seconds(run.duration_s) or "-",
            text.line(run.command:gsub("^ponder ", "")), text.line(run.path) }
    end
    local columns = { { "#", right = true }, { "WHEN" }, { "STATUS" },
        { "CALLS", right = true, drop = 3 }, { "TOKENS", right = true, drop = 5 },
        { "COST", right = true, drop = 2 }, { "TIME", right = true, drop = 4 },
        { "COMMAND", least = short and 10 or 18 }, { "LOG", drop = 6 } }
    for _, line in ipairs(grid.new(columns, rows, out):lines(rows)) do
        io.stdout:write(line, "\n")
    end
end

---@param arguments string[]
---@return integer status 0; 1 when the folder cannot be read; 2 for a usage error
function log.run(arguments)
    local opts, operands = args.parse("ponder log", arguments, RULES)
    if not opts then
        return cli.usage_error(operands)
    elseif operands[1] then
        return cli.usage_error("ponder log: unexpected argument " .. options.show(operands[1]))
    end
    local runs, problem = kept.list()
    if problem then
        io.stderr:write("ponder log: ", problem, "\n")
        return 1
    end
    local list = look(runs, opts.limit)
    if opts.json then
        for _, run in ipairs(list) do
            io.stdout:write(json.encode(run), "\n")
        end
    elseif #list > 0 then
        print_table(list)
    else
        io.stderr:write("ponder log: no run is kept in ", state.directory() or "$HOME", " yet\n")
    end
    return 0
end

return log
