--- The summary that `ponder show` prints: command, status, answer, totals, searches.

local options = require "ponder.base.options"
local amount = require "ponder.show.amount"
local grid = require "ponder.show.grid"
local json = require "ponder.json"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"
local text = require "ponder.show.text"

local summary = {}

local LABEL = 10 -- columns
local MAX_LINES = 24 -- of an answer on a terminal
local MAX_JSON = 400 -- bytes of an answer that is not text; --json prints it whole

--- Of the states of runs.
summary.COLORS = { completed = "green", failed = "red", killed = "red", damaged = "red",
    interrupted = "yellow", running = "bold" }

-- The accuracies in the answer of `ponder eval`: "io 50.0 %, tot 95.0 %"; nil for other answers.
local function accuracies(answer)
    local parts = {}
    for i, policy in ipairs(type(answer.policies) == "table" and answer.policies or {}) do
        local figure = type(policy) == "table" and policy.accuracy
        local value = type(figure) == "table" and figure.value
        if type(value) ~= "number" or type(policy.name) ~= "string" then
            return nil
        end
        parts[i] = policy.name .. " " .. (policy.binary and ("%.1f %%"):format(100 * value)
            or ("%.3f"):format(value))
    end
    return parts[1] and table.concat(parts, ", ")
end

---The answer of a run: a text in full, the accuracies of an evaluation, or the beginning of other
---values as JSON.
---@param answer any decoded
---@return string?
function summary.answer(answer)
    if answer == nil or answer == json.null then
        return nil
    elseif type(answer) == "table" then
        local value = answer.answer
        if value == nil and type(answer.texts) == "table" then
            value = answer.text -- a reply, of `ponder chat`
        end
        value = value or accuracies(answer)
        if type(value) == "string" then
            return value
        end
    end
    return type(answer) == "string" and answer or quote.cut(json.encode(answer), MAX_JSON)
end

-- Lines of a label and a text, wrapped on a terminal; at most `max`, and how many more there are.
local function labelled(style, label, value, color, max)
    if not value then
        return {}
    end
    value = text.safe(value)
    local lines, wrapped = {}, text.wrap(value, style:width() - LABEL)
    for i = 1, math.min(#wrapped, max or #wrapped) do
        lines[i] = (i == 1 and style:paint(("%-" .. LABEL .. "s"):format(label), "dim")
            or (" "):rep(LABEL)) .. style:paint(wrapped[i], color)
    end
    if #wrapped > #lines then
        lines[#lines + 1] = (" "):rep(LABEL) .. style:paint("... "
            .. quote.count(#wrapped - #lines, "more line"), "dim")
    end
    return lines
end

local function status_of(log, run, totals)
    local state = log:state()
    local took = amount.duration(run, totals.last_at)
    local words = { state }
    if run.exit_status and run.exit_status ~= 0 then
        words[1] = ("%s (exit status %d)"):format(state, run.exit_status)
    end
    if took then
        words[#words + 1] = (run.ended_at and "in " or "after ") .. amount.seconds(took)
    end
    local line = table.concat(words, " ") .. ", " .. amount.when(run.started_at)
    local sessions = #reader.list(log:sessions())
    if sessions > 1 then
        line = ("%s, resumed %s"):format(line, amount.of(sessions - 1, "time"))
    end
    return line, summary.COLORS[state]
end

local function calls_of(totals)
    if totals.calls == 0 then
        return "none"
    end
    local kinds = {}
    for _, kind in ipairs { { "ok", "answered" }, { "errors", "failed" },
        { "cancelled", "cancelled" }, { "pending", "without an answer" } } do
        if totals[kind[1]] > 0 then
            kinds[#kinds + 1] = ("%d %s"):format(totals[kind[1]], kind[2])
        end
    end
    local line = ("%d: %s"):format(totals.calls, table.concat(kinds, ", "))
    if totals.retries > 0 then
        line = line .. "; " .. amount.of(totals.retries, "retry", "retries")
    end
    if totals.reused > 0 then
        line = line .. ("; %d not sent (log or cache)"):format(totals.reused)
    end
    return line
end

local function tokens_of(totals)
    if totals.calls == 0 then
        return nil
    end
    local line = ("%s in, %s out"):format(amount.tokens(totals, totals.input_tokens),
        amount.tokens(totals, totals.output_tokens))
    if (totals.cache_read_tokens or 0) > 0 then
        line = ("%s; %s from the provider's cache"):format(line,
            amount.count(totals.cache_read_tokens))
    end
    return line
end

-- What the runs within a run did, such as the attempts of an evaluation.
local function inner_of(log)
    local runs, totals = log:inner_totals()
    if runs == 0 then
        return nil
    end
    local facts = { amount.of(totals.calls, "call") }
    facts[#facts + 1] = tokens_of(totals)
    facts[#facts + 1] = totals.calls > 0 and "cost " .. amount.cost(totals) or nil
    return ("%d within it: %s (ponder log FILE lists them)"):format(runs, table.concat(facts, ", "))
end

local function saved_of(run, totals)
    if totals.reused == 0 then
        return nil
    end
    return ("%s, %s%s"):format(amount.of(totals.reused, "call"),
        run.saved_cost and amount.money(run.saved_cost) or "cost ?",
        run.source and "; forked from " .. run.source or "")
end

local function settings_of(run)
    local parts = { ("seed %d"):format(run.seed) }
    for _, field in ipairs { "options", "versions" } do
        for _, name in ipairs(options.names(type(run[field]) == "table" and run[field] or {})) do
            local value = tostring(run[field][name])
            parts[#parts + 1] = field == "options" and name .. "=" .. value
                or value:lower():find(name, 1, true) == 1 and value or name .. " " .. value
        end
    end
    return table.concat(parts, ", ")
end

local function models_table(totals, style)
    local rows = {}
    for i, model in ipairs(totals.models) do
        rows[i] = { text.line(model.provider .. ":" .. model.model), amount.count(model.calls),
            amount.tokens(model, model.input_tokens), amount.tokens(model, model.output_tokens),
            amount.cost(model) }
    end
    return grid.new({ { "MODEL", least = 12 }, { "CALLS", right = true },
        { "IN", right = true, drop = 2 }, { "OUT", right = true, drop = 3 },
        { "COST", right = true } }, rows, style):lines(rows)
end

local function searches_table(log, style)
    local rows, has_name = {}, false
    for search in log:searches() do
        has_name = has_name or search.name ~= nil
        rows[#rows + 1] = { ("%d"):format(search.id), search.kind,
            amount.count(log:node_count(search.id)),
            amount.score(search.score),
            text.line((search.reason or search.status or "-"):gsub("_", " ")),
            text.line(search.name or search.question or "") }
    end
    return #rows > 0 and grid.new({ { "SEARCH", right = true }, { "KIND" },
        { "NODES", right = true }, { "BEST", right = true, drop = 2 },
        { "ENDED", least = 6, drop = 1 },
        { has_name and "NAME" or "QUESTION", least = 8, drop = 3 } }, rows, style):lines(rows)
end

local MAX_FAILURES, MAX_MESSAGE = 3, 300

-- The messages of failed calls that are not part of the run's error.
local function failures_of(log, run)
    local lines, left = {}, 0
    for failure in log:failures() do
        local message = text.line(failure.message or "no reason was recorded")
        local is_shown = run.error and failure.message
            and run.error:find(failure.message, 1, true)
        if not is_shown and #lines < MAX_FAILURES then
            lines[#lines + 1] = ("%s: %s [%s]"):format(amount.of(failure.calls, "call"),
                quote.cut(message, MAX_MESSAGE), failure.code or "?")
        elseif not is_shown then
            left = left + failure.calls
        end
    end
    if left > 0 then
        lines[#lines + 1] = amount.of(left, "more call")
    end
    return lines[1] and table.concat(lines, "\n") or nil
end

---The lines of the summary.
function summary.lines(log, style)
    local run, totals = log:run(), log:totals()
    local lines = {}
    local function add(...)
        local more = labelled(style, ...)
        table.move(more, 1, #more, #lines + 1, lines)
    end
    local function add_table(more)
        if more then
            lines[#lines + 1] = ""
            table.move(more, 1, #more, #lines + 1, lines)
        end
    end
    add("run", amount.command(run))
    add("name", run.name)
    local labels = {}
    for i, name in ipairs(options.names(run.labels or {})) do
        labels[i] = ("%s=%s"):format(name, tostring(run.labels[name]))
    end
    add("labels", labels[1] and table.concat(labels, ", "))
    add("request", run.parent and log:question(), nil, style.is_terminal and MAX_LINES or nil)
    add("within", run.parent and ("run %d"):format(run.parent))
    add("directory", run.directory)
    add("status", status_of(log, run, totals))
    add("error", run.error, "red", style.is_terminal and MAX_LINES or nil)
    add("answer", summary.answer(run.answer), "bold", style.is_terminal and MAX_LINES or nil)
    add("calls", calls_of(totals))
    add("failed", totals.errors > 0 and failures_of(log, run) or nil, "red")
    add("tokens", tokens_of(totals))
    add("cost", totals.calls > 0 and amount.cost(totals) or nil)
    add("tools", totals.tools > 0 and amount.of(totals.tools, "call") .. (totals.tool_errors > 0
        and (", %d raised an error"):format(totals.tool_errors) or "") or nil)
    add("runs", inner_of(log))
    add("saved", saved_of(run, totals))
    add("with", settings_of(run))
    add("log", log.path)
    add_table(totals.calls > 0 and models_table(totals, style))
    add_table(searches_table(log, style))
    return lines
end

---The summary as a table for JSON.
function summary.map(log)
    local searches, files = reader.list(log:searches()), reader.list(log:files())
    for _, search in ipairs(searches) do
        search.nodes = log:node_count(search.id)
    end
    for _, file in ipairs(files) do
        file.text = nil
    end
    local totals = log:totals()
    totals.models = json.array(totals.models)
    return { path = log.path, state = log:state(), run = log:run(), totals = totals,
        searches = searches, files = files, sessions = reader.list(log:sessions()) }
end

return summary
