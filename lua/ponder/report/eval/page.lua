--- Writes an evaluation as one self-contained page: the table, the curves, the items.

local json = require "ponder.json"
local quote = require "ponder.quote"
local runs = require "ponder.report.eval.runs"
local standalone = require "ponder.report.standalone"
local tables = require "ponder.report.eval.table"

local page = {}

local MAX_TEXT_BYTES = 4000 -- of an answer, a question, a message
local FIELDS = { "policy", "id", "epoch", "outcome", "score", "answer", "target", "why", "code",
    "message", "calls", "tokens", "cost", "seconds", "critical_seconds" }
local TEXTS = { answer = true, target = true, why = true, message = true }

-- Any value as text, truncated.
local function short(value)
    if type(value) ~= "string" then
        local ok, encoded = pcall(json.encode, value)
        value = ok and encoded or tostring(value)
    end
    if #value > MAX_TEXT_BYTES then
        value = quote.head(value, MAX_TEXT_BYTES) .. " ..."
    end
    return value
end

local function row_of(record)
    local row = {}
    for i, name in ipairs(FIELDS) do
        local value = record[name]
        row[i] = value == nil and json.null or TEXTS[name] and short(value) or value
    end
    return json.array(row)
end

---The page of a result.
---@param result ponder.eval.Result
---@param log? string path of its log, for the calls and trees of each run
---@param served? string the name of the log, on a served page, which links to its runs
---@return string html
function page.write(result, log, served)
    local rows, questions = json.array {}, json.object {}
    for i, record in ipairs(result.records) do
        rows[i] = row_of(record)
        if record.question ~= nil and not questions[record.id] then
            questions[record.id] = short(record.question)
        end
    end
    return standalone.assemble(standalone.part "eval.html", standalone.part "eval.css",
        standalone.join(served and { "live", "eval" } or { "eval" }), {
            meta = result.meta, policies = json.array(result.policies),
            curves = result.curves or json.object {}, notes = json.array(tables.notes(result)),
            fields = FIELDS, records = rows, questions = questions,
            runs = log and runs.read(log) or nil, served = served }, served ~= nil)
end

return page
