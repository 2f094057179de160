--- `ponder log`: lists the recorded runs.

local amount = require "ponder.show.amount"
local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local failures = require "ponder.run.task.failures"
local grid = require "ponder.show.grid"
local host = require "ponder.core.host"
local json = require "ponder.json"
local kept = require "ponder.run.log.retention"
local opened_logs = require "ponder.cli.shared.opened"
local options = require "ponder.base.options"
local reader = require "ponder.run.log.reader"
local state = require "ponder.base.state"
local style = require "ponder.show.style"
local summary = require "ponder.show.log.summary"
local text = require "ponder.show.text"

local log = cli.command({ files = true, expects = { 0, 1, "one log" } }, {
    { "limit", value = "N", type = "integer", min = 1, default = 20,
        help = "at most N runs (default: 20)" },
    { "grep", value = "TEXT", help = "only runs with TEXT in their command, name, labels, answer "
        .. "or error, ignoring case" },
    { "status", value = "STATUS", enum = { "completed", "failed", "interrupted", "running",
        "killed", "damaged" },
        help = "only runs with this status" },
    { "since", value = "WHEN", help = "only runs since a date (2026-11-22) or age (90m, 12h, 7d)" },
    { "json", help = "print a line of JSON for each run" },
})

log.summary = "list the logged runs"

log.about = [[
ponder log [OPTION...] [FILE]

Lists the runs in $XDG_STATE_HOME/ponder (~/.local/state/ponder), newest first: start, status,
calls, tokens, cost and time; calls, tokens and cost include those of the runs that a run started,
such as the attempts of an evaluation. ? stands for tokens or a cost that no reply reported or no
price is known for. A run that has not ended is `running` while a process has its log open, else
`killed`. ponder show N shows one. Damaged files have no
number; --keep removes them with the oldest runs. With FILE, a path or the name or number of a log,
lists the runs that it holds, oldest first, each with its own calls; other commands take the third
as FILE#3.]]

local NARROW = 60

-- A listed run, and its row in the log.
local function describe(opened, file, totals)
    local run = opened:run()
    return { name = file.name, path = file.path, bytes = file.bytes,
        status = opened:state(), command = amount.command(run), started_at = run.started_at,
        ended_at = run.ended_at, exit_status = run.exit_status,
        duration_s = amount.duration(run, totals.last_at), calls = totals.calls,
        errors = totals.errors, total_tokens = totals.total_tokens,
        unmetered_calls = totals.unmetered, cost = totals.cost, unpriced_calls = totals.unpriced,
        saved_calls = run.saved_calls,
        saved_cost = run.saved_cost, run_name = run.name, labels = run.labels,
        parent = run.parent }, run
end

-- Whether a run matches the filters. `row` is its row in the log; nil if that is damaged.
local function is_wanted(opts, found, row)
    local where = {}
    local function add(value)
        where[#where + 1] = value and (type(value) == "table" and json.encode(value)
            or tostring(value)) or nil
    end
    for _, field in ipairs { "command", "run_name", "error", "name", "labels" } do
        add(found[field])
    end
    add(row and row.answer)
    add(row and row.error)
    local held = not opts.grep
        or table.concat(where, "\n"):lower():find(opts.grep:lower(), 1, true) ~= nil
    return held and (not opts.status or found.status == opts.status)
        and (not opts.since or found.started_at >= opts.since)
end

-- The runs of the state directory that match the filters.
local function list_runs(files, opts)
    local list, number = {}, 0
    for _, file in ipairs(files) do
        if #list == opts.limit or opts.since and file.started_at < opts.since then
            break
        end
        local ok, found, row = true, nil, file.damage
        if not row then
            number = number + 1
            ok, found, row = pcall(function()
                local opened <close>, message = reader.open(file.path)
                if not opened then
                    return nil, message
                end
                return describe(opened, file, opened:file_totals())
            end)
            failures.pass_stop(ok, found)
        end
        if not ok or not found then
            found, row = { name = file.name, path = file.path, bytes = file.bytes,
                status = "damaged", command = "", started_at = file.started_at, calls = 0,
                errors = 0, error = ok and row or found }, nil
        end
        found.number = not file.damage and number or nil
        list[#list + 1] = is_wanted(opts, found, row) and found or nil
    end
    return list
end

-- The runs of one log that match the filters.
local function list_runs_of(opened, opts)
    local list = {}
    for _, number in ipairs(opened:numbers()) do
        if #list == opts.limit then
            break
        end
        local one = opened:other(number)
        local found, row = describe(one, { path = opened.path, name = opened.path },
            one:totals())
        found.number = number
        list[#list + 1] = is_wanted(opts, found, row) and found or nil
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
            { run.status, summary.COLORS[run.status] }, amount.count(run.calls),
            amount.tokens({ calls = run.calls, unmetered = run.unmetered_calls },
                run.total_tokens),
            amount.cost { calls = run.calls, cost = run.cost, unpriced = run.unpriced_calls },
            run.duration_s and amount.seconds(run.duration_s) or "-",
            text.line(run.command:gsub("^ponder ", "")
                .. (run.run_name and ": " .. run.run_name or "")), text.line(run.path) }
    end
    local columns = { { "#", right = true }, { "WHEN" }, { "STATUS" },
        { "CALLS", right = true, drop = 3 }, { "TOKENS", right = true, drop = 5 },
        { "COST", right = true, drop = 2 }, { "TIME", right = true, drop = 4 },
        { "COMMAND", least = short and 10 or 18 }, { "LOG", drop = 6 } }
    cli.print_lines(grid.new(columns, rows, out):lines(rows))
end

local function print_list(list, opts)
    if opts.json then
        for _, run in ipairs(list) do
            cli.print_json(run)
        end
    elseif #list > 0 then
        print_table(list)
    end
end

-- Parses a date or an age such as "2h"; nil: neither.
local function time_of(when)
    local year, month, day = when:match "^(%d%d%d%d)%-(%d%d)%-(%d%d)$"
    if year then
        local time = os.time { year = tonumber(year), month = tonumber(month), day = tonumber(day),
            hour = 0 }
        return os.date("%Y-%m-%d", time) == when and time or nil -- there is no 2026-02-30
    end
    local days = when:match "^(%d+)d$"
    local seconds = days and tonumber(days) * 86400 or args.duration(when)
    return seconds and host.time() - seconds
end

function log.run(opts, operands)
    opts.since = opts.since and cli.expect_flag("--since", time_of(opts.since),
        ("expected a date such as 2026-11-22, or a time such as 12h or 7d (got %s)"):format(
            options.show(opts.since)))
    if operands[1] then
        cli.expect(kept.find(operands[1]))
        return opened_logs.run(1, operands, function(opened)
            print_list(list_runs_of(opened, opts), opts)
        end)
    end
    local runs, problem = kept.list()
    cli.refuse(problem, 1)
    print_list(list_runs(runs, opts), opts)
    if #runs == 0 and not opts.json then
        io.stderr:write("ponder log: no runs in ", state.directory() or "$HOME", " yet\n")
    end
    return 0
end

return log
