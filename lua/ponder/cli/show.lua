--- `ponder show`: shows what a run did.

local cli = require "ponder.cli.shared.main"
local amount = require "ponder.show.amount"
local args = require "ponder.args"
local calls = require "ponder.show.log.calls"
local export = require "ponder.show.export.json"
local json = require "ponder.json"
local opened = require "ponder.cli.shared.opened"
local options = require "ponder.base.options"
local style = require "ponder.show.style"
local summary = require "ponder.show.log.summary"
local text = require "ponder.show.text"
local trees = require "ponder.show.log.trees"

local show = cli.command({ files = true, expects = { 0, 1, "one run; ponder diff compares two" } },
    {
    { "calls", help = "one line per model call, of the runs within it, too; times in seconds" },
    { "tools", help = "one line per call of a tool, of the runs within it, too: its arguments and "
        .. "result" },
    { "tree", help = "the search trees and thought graphs; * marks the best path" },
    { "events", help = "the events of searches and machines, in order" },
    { "call", value = "N", type = "integer", min = 1,
        help = "one call: the whole request and reply" },
    { "node", value = "ID", help = "one node: its text, score and calls" },
    { "search", value = "N", type = "integer", min = 1, modes = { "--tree", "--node" },
        help = "--tree, --node: only search N" },
    { "json", help = "print JSON; for a list, one line per item" },
})

show.summary = "show what a run did: its calls, trees and events"

show.about = [[
ponder show [OPTION...] [FILE|NAME|N]

Shows the newest run, or the one with that log path, or that name or number in ponder log: the
command, the status, the answer, and tokens and cost by model.]]

local VIEWS = { "calls", "tools", "tree", "events", "call", "node" }

local function write(line)
    io.stdout:write(line, "\n")
end

local function write_json(value)
    write(export.line(value))
end

-- What a log lacks, and where it may be: in the runs within this one.
local function missing(log, what)
    local runs = log:inner_totals()
    return ("%s: there is no %s%s"):format(log.path, what, runs == 0 and ""
        or ("; %s within it may have some: ponder log FILE lists them, FILE#2 names one"):format(
        amount.of(runs, "run")))
end

local views = {}

function views.summary(log, opts, out)
    if opts.json then
        write_json(summary.map(log))
    else
        cli.print_lines(summary.lines(log, out))
    end
end

-- Shows the calls, of models or of tools, of a run and of those within it.
local function list_calls(list, rows, missing_words)
    return function(log, opts, out)
        if not opts.json then
            return cli.refuse(list(log, out, write) == 0 and log.path .. missing_words, 1)
        end
        for one in log:with_inner() do
            for row in one[rows](one) do
                if rows == "calls" or row.kind == "tool" then
                    write_json(row)
                end
            end
        end
    end
end

views.calls = list_calls(calls.list, "calls", ": there is no call")
views.tools = list_calls(calls.list_tools, "effects", ": no tool was called")

function views.call(log, opts, out)
    local call = log:call(opts.call)
    cli.refuse(not call and missing(log, ("call %d; there are %d"):format(opts.call,
        log:totals().calls)))
    if opts.json then
        call.failures = json.array(call.failures)
        write_json(call)
    else
        cli.print_lines(calls.lines(log, call, out))
    end
end

function views.tree(log, opts, out)
    if not opts.json then
        local drawn = trees.draw(log, out, opts.search, write)
        cli.refuse(drawn == 0 and missing(log, "search" .. (opts.search and " " .. opts.search
            or "")), opts.search and 2 or 1)
        return
    end
    local count = 0
    for search in log:searches() do
        if not opts.search or search.id == opts.search then
            export.write_search(log, io.stdout, search)
            write ""
            count = count + 1
        end
    end
    cli.refuse(opts.search and count == 0 and missing(log, "search " .. opts.search))
end

function views.node(log, opts, out)
    local found = trees.find(log, opts.node, opts.search)
    cli.refuse(not found[1] and missing(log, "node " .. text.line(opts.node)))
    for i, node in ipairs(found) do
        if opts.json then
            write_json(node)
        else
            cli.print_lines(i > 1 and { "" } or {})
            cli.print_lines(trees.node_lines(log, node, out))
        end
    end
end

-- An event's fields as name=value. Machines keep them in two tables.
local function show_fields(data)
    local fields, shown = {}, {}
    for name, value in pairs(data) do
        local is_group = type(value) == "table" and (name == "measurements" or name == "metadata")
        options.merge(fields, is_group and value or { [name] = value })
    end
    for i, name in ipairs(options.names(fields)) do
        local value = fields[name]
        if math.type(value) == "float" then
            value = ("%.6g"):format(value)
        elseif type(value) ~= "string" or value:find "[%s=]" then
            value = json.encode(value)
        end
        shown[i] = ("%s=%s"):format(name, value)
    end
    return table.concat(shown, " ")
end

function views.events(log, opts, out)
    local start = log:run().started_at
    local count = 0
    for one in log:with_inner() do
        local run = one.number ~= log.number and ("#%d "):format(one.number) or ""
        for event in one:events() do
            count = count + 1
            if opts.json then
                write_json(event)
            else
                local line = ("%8s  %s%s%s  %s"):format(amount.after(event.at, start), run,
                    event.search and ("[%d] "):format(event.search) or "", text.line(event.name),
                    text.line(show_fields(event.data or {})))
                write(text.cut(line, out:width(), out:mark()))
            end
        end
    end
    cli.refuse(count == 0 and not opts.json and log.path .. ": there is no event", 1)
end

-- The name of the view that the flags ask for.
local function view_of(opts)
    local chosen
    for _, name in ipairs(VIEWS) do
        if opts[name] then
            cli.refuse(chosen and ("%s or %s, not both"):format(args.flag(chosen),
                args.flag(name)))
            chosen = name
        end
    end
    cli.check_modes(show, opts, chosen and args.flag(chosen) or "")
    return chosen or "summary"
end

function show.run(opts, operands)
    local view = view_of(opts)
    return opened.run(1, operands, function(log)
        return views[view](log, opts, style.of(1))
    end)
end

return show
