--- `ponder diff`: compares two runs.

local cli = require "ponder.cli.shared.main"
local amount = require "ponder.show.amount"
local calls = require "ponder.show.log.calls"
local changed = require "ponder.show.changed"
local compare = require "ponder.show.compare"
local grid = require "ponder.show.grid"
local json = require "ponder.json"
local opened = require "ponder.cli.shared.opened"
local style = require "ponder.show.style"
local summary = require "ponder.show.log.summary"
local text = require "ponder.show.text"

local diff = cli.command({ files = true, expects = { 2, 2, "two runs: ponder diff A B" } }, {
    { "all", modes = { "" }, help = "show every difference, not only the first of each kind" },
    { "json", help = "print one JSON object" },
})

diff.summary = "compare two runs"

diff.about = [[
ponder diff [OPTION...] A B

Compares two runs, each the path of a log, or a name or number in ponder log: their inputs, calls,
trees, answers and costs. Nodes are equal if their texts and those of their ancestors are equal;
calls, if their requests are. At most 10,000 calls and nodes that differ are listed.

Exit status: 0 if the outcomes (answer, status, trees) are equal, whatever the inputs and costs; 1
if they differ; 2 if a run cannot be read.]]

local UNREADABLE = 2 -- exit status
local FEW_LINES = 12 -- of each kind, without --all
local MAX_VALUE_BYTES = 200

-- Writes differences with the marks and colours of diff.
local Writer = {}
Writer.__index = Writer

function Writer:line(s, color)
    io.stdout:write(self.style:paint(text.cut(s, self.style:width(), self.style:mark()), color),
        "\n")
end

function Writer:title(s)
    io.stdout:write("\n")
    self:line(s, "dim")
end

-- Writes the first lines of a list of {mark, text}. `count`: the length of the whole list.
function Writer:marked(list, count)
    local shown = self.all and #list or math.min(#list, FEW_LINES)
    for i = 1, shown do
        local mark, what = list[i][1], list[i][2]
        self:line(mark .. " " .. what, mark == "-" and "red" or mark == "+" and "green" or nil)
    end
    local left = (count or #list) - shown
    if left > 0 then
        self:line("... " .. left .. (self.all and " more" or " more (--all)"), "dim")
    end
end

-- Writes the lines of two texts that differ.
function Writer:changed(a, b, is_numbered)
    local list = {}
    for i, line in ipairs(changed.lines(text.safe(a), text.safe(b))) do
        list[i] = { line.mark, is_numbered and ("%4d  %s"):format(line.line, line.text)
            or line.text }
    end
    self:marked(list)
end

-- Writes what only one of two runs has.
function Writer:sides(found, line_of)
    for _, side in ipairs { "only_a", "only_b" } do
        local list = {}
        for i, one in ipairs(found[side]) do
            list[i] = { side == "only_a" and "-" or "+", line_of(one) }
        end
        self:marked(list, found[side .. "_count"])
    end
end

local function value_of(value)
    if value == nil then
        return "-"
    elseif value == math.huge or value == -math.huge then
        return tostring(value)
    end
    return text.cut(text.line(type(value) == "string" and value or json.encode(value)),
        MAX_VALUE_BYTES)
end

local function write_table(w, found)
    local a, b = found.a, found.b
    local function tokens(side)
        return ("%s in, %s out"):format(amount.tokens(side, side.input_tokens),
            amount.tokens(side, side.output_tokens))
    end
    local function time(side)
        return side.duration_s and amount.seconds(side.duration_s) or "-"
    end
    local rows = { { "log", text.line(a.path), text.line(b.path) }, { "status", a.state, b.state },
        { "answer", value_of(summary.answer(a.answer)), value_of(summary.answer(b.answer)) },
        { "calls", amount.count(a.calls), amount.count(b.calls) },
        { "not sent", amount.count(a.reused), amount.count(b.reused) },
        { "tokens", tokens(a), tokens(b) }, { "cost", amount.cost(a), amount.cost(b) },
        { "time", time(a), time(b) } }
    for _, row in ipairs(rows) do
        if row[2] ~= row[3] and row[1] ~= "log" then
            row[2], row[3] = { row[2], "red" }, { row[3], "green" }
        end
    end
    cli.print_lines(grid.new({ { "" }, { "A", least = 8 }, { "B", least = 8 } }, rows, w.style)
        :lines(rows))
end

local function write_answers(w, found)
    local a, b = summary.answer(found.a.answer), summary.answer(found.b.answer)
    if found.answers_same or not a or not b then
        return -- the table shows them
    end
    w:title("answers")
    w:changed(a, b)
end

local function write_given(w, found)
    if #found.given > 0 then
        w:title("inputs")
    end
    for _, item in ipairs(found.given) do
        w:line(("%s: %s | %s"):format(text.line(item.name), value_of(item.a), value_of(item.b)))
    end
    for _, file in ipairs(found.files) do
        local name = ("%s %s"):format(file.kind, text.line(file.path))
        if not file.a or not file.b then
            w:title(name .. (file.a and ": only in A" or ": only in B"))
        else
            w:title(name)
            w:changed(file.a_text, file.b_text, true)
        end
    end
end

local function write_calls(w, found)
    local asked = found.calls
    if asked.only_a_count + asked.only_b_count == 0 then
        return
    end
    w:title(("calls: %d the same, %d only in A, %d only in B"):format(asked.same,
        asked.only_a_count, asked.only_b_count))
    w:sides(asked, function(call)
        return text.line(("%d  %s  %s:%s"):format(call.id, calls.purpose(call), call.provider,
            call.model))
    end)
end

local function write_search(w, search)
    local kind = search.kind or search.b_kind
    if not search.only_a then
        w:title(("search %d: %s | %s"):format(search.id, search.kind or "none",
            search.b_kind or "none"))
        return
    end
    w:title(("search %d, %s: %s | %s; %d only in A, %d only in B, %d scored differently"):format(
        search.id, kind, amount.of(search.a_nodes, "node"), amount.of(search.b_nodes, "node"),
        search.only_a_count, search.only_b_count, search.scored_count))
    if search.a_reason ~= search.b_reason then
        w:line(("ended: %s | %s"):format(value_of(search.a_reason), value_of(search.b_reason)))
    end
    w:line(search.best_path_same and "the best path is the same" or "the best path differs")
    w:sides(search, function(node)
        return ("%s  %s%s  %s"):format(tostring(node.id), amount.score(node.score),
            node.best and "*" or " ", text.line(node.text or ""))
    end)
    local list = {}
    for i, node in ipairs(search.scored) do
        list[i] = { "~", ("%s  %s | %s  %s"):format(tostring(node.a), value_of(node.a_score),
            value_of(node.b_score), text.line(node.text or "")) }
    end
    w:marked(list, search.scored_count)
end

local function write_all(w, found)
    write_table(w, found)
    write_answers(w, found)
    write_given(w, found)
    write_calls(w, found)
    for _, search in ipairs(found.searches) do
        if not search.same then
            write_search(w, search)
        end
    end
    io.stdout:write("\n")
    w:line(found.same and "Same outcome." or "Different outcomes.")
end

function diff.run(opts, operands)
    cli.check_modes(diff, opts, opts.json and "--json" or "")
    return opened.run(2, operands, function(a, b)
        local found = compare.of(a, b)
        if opts.json then
            cli.print_json(found)
        else
            write_all(setmetatable({ style = style.of(1), all = opts.all }, Writer), found)
        end
        return found.same and 0 or 1
    end, UNREADABLE)
end

return diff
