--- A model call as the log has it: a row of `calls`.

local json = require "ponder.json"
local model_budget = require "ponder.model.budget"
local price = require "ponder.model.price"
local provider = require "ponder.model.provider"
local redact = require "ponder.model.redact"
local store = require "ponder.core.store"
local tally = require "ponder.tally"
local task = require "ponder.task"

local call = {}

---@class ponder.log.Call: ponder.log.Operation
---@field request ponder.model.Request
---@field unwritten boolean its row is held back
---@field asked_at number seconds since 1970
local Call = { kind = "call" }
Call.__index = Call

local LABEL_BYTES = 60

-- "call to openai:gpt-4o-mini (Use 4 4 6 8 to make...)"
local function label_of(model, messages)
    local last = messages[#messages]
    local text = type(last.content) == "string" and last.content or json.encode(last.content or "")
    text = text:gsub("%s+", " ")
    if #text > LABEL_BYTES then
        text = text:sub(1, utf8.offset(text, 0, LABEL_BYTES - 2) - 1) .. "..."
    end
    return ("the call to %s (%s)"):format(model, text)
end

---@param request ponder.model.Request
---@return ponder.log.Call
function call.new(request)
    request.failures = {}
    local identity = redact.keep(request:identity()) -- as the log will have it
    return setmetatable({ request = request, identity = store.sha256(identity) }, Call)
end

--- The operation in a few words, for people.
---@return string
function Call:describe()
    return label_of(self.request.target.label, self.request.messages)
end

---------------------------------------------------------------------------------------------------
-- Replies as JSON

local REPLACEMENT = "\u{FFFD}" -- of bytes that are no UTF-8

-- JSON has no infinity and no NaN; the raw reply of a careless server may. `exact`: what it decodes
-- to is the same.
local function encode(draft)
    local ok, text = pcall(json.encode, draft)
    if ok then
        return text, not text:find(REPLACEMENT, 1, true)
    end
    local copy = {}
    for field, value in pairs(draft) do
        copy[field] = value
    end
    copy.raw = nil
    return json.encode(copy), false
end

---------------------------------------------------------------------------------------------------
-- Rows

local ASKED = { "run", "id", "session", "identity", "occurrence", "provider", "model", "sample",
    "samples", "request", "metadata", "within", "search", "node", "purpose", "asked_at" }
local ANSWERED = { "status", "origin", "queued_at", "sent_at", "answered_at", "reply",
    "code", "message", "latency_ms",
    "time_to_first_ms", "attempts", "input_tokens", "output_tokens", "total_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost" }

local function insertion(columns)
    return ("INSERT INTO calls (%s) VALUES (%s)"):format(table.concat(columns, ", "),
        ("?, "):rep(#columns - 1) .. "?")
end

local ASK = insertion(ASKED)
local ASK_AND_ANSWER = insertion(table.move(ANSWERED, 1, #ANSWERED, #ASKED + 1,
    table.move(ASKED, 1, #ASKED, 1, {})))
local ANSWER = ("UPDATE calls SET (%s) = (%s) WHERE run = ?1 AND id = ?2"):format(
    table.concat(ANSWERED, ", "), ("?, "):rep(#ANSWERED - 1):gsub("?", "?3", 1) .. "?")

-- A row is written once, with its answer, unless that takes long: see Recorder:defer.
---@param log ponder.log.Recorder
function Call:insert(log)
    local request, asker = self.request, task.context("asker")
    local search, node, purpose
    if asker then
        search, node, purpose = asker.tree:asks(log, asker)
    end
    self.body = request:body_json()
    self.metadata = request.metadata and json.encode(request.metadata)
    self.search, self.node, self.purpose = search, node, purpose
    self.run, self.session = log.run, log.session
    self.asked_at, self.unwritten = log.clock(), true
    request.clock = log.clock
    log:defer(self)
end

-- What is known when it is asked, as ASKED has it; and then what comes.
local function asked(self, ...)
    local request = self.request
    self.unwritten = false
    return self.run, self.id, self.session, self.identity, self.occurrence,
        request.provider, request.model, request.sample, request.n, self.body, self.metadata,
        self.within_id, self.search, self.node, self.purpose, self.asked_at, ...
end

-- A statement with its values, which ANSWERED lists.
local function answered(self, ...)
    if self.unwritten then
        return ASK_AND_ANSWER, asked(self, ...)
    end
    return ANSWER, self.run, self.id, ...
end

--- Writes the row that is waiting for its answer.
---@param log ponder.log.Recorder
function Call:write_asked(log)
    if self.unwritten then
        log:write(ASK, asked(self))
    end
end

---@param log ponder.log.Recorder
function Call:ask_again(log)
    self.run, self.request.clock = log.run, log.clock
    log:write([[INSERT INTO attempts (run, call, attempt, at, code, message)
        SELECT run, id, coalesce(attempts, 1), answered_at, code, message FROM calls
        WHERE run = ?1 AND id = ?2 AND status = 'error'
        AND NOT EXISTS (SELECT 1 FROM attempts WHERE run = ?1 AND call = ?2)]], self.run, self.id)
    log:write([[INSERT INTO attempts (run, call, attempt, at, code, message)
        SELECT run, id, 1, ?, 'KILLED', 'the process ended before its reply came' FROM calls
        WHERE run = ? AND id = ? AND status IS NULL]], log.clock(), self.run, self.id)
    log:write("UPDATE calls SET session = ?, asked_at = ?, status = NULL WHERE run = ? AND id = ?",
        log.session, log.clock(), self.run, self.id)
end

local function write_answer(self, log, status, draft, reply, message, code, cost)
    local usage = tally.clean(draft and draft.usage)
    log:spend(usage, cost)
    usage = usage or {}
    draft = draft or {}
    log:write(answered(self, status, draft.origin or "live", self.request.queued_at,
        self.request.sent_at, log.clock(), reply, code, message, tonumber(draft.latency_ms),
        tonumber(draft.time_to_first_ms),
        math.tointeger(draft.attempts) or #self.request.failures,
        usage.input_tokens, usage.output_tokens, tally.total(usage), usage.cache_read_tokens,
        usage.cache_write_tokens, usage.reasoning_tokens, cost))
end

local function write_failures(self, log)
    for _, failed in ipairs(self.request.failures) do
        log:write([[INSERT INTO attempts (run, call, attempt, at, status, code, message, queue_ms,
            total_ms, retry_in_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]], self.run, self.id,
            failed.attempt, failed.at, failed.status, failed.code,
            self.request.target.redactor:text(failed.message), failed.queue_ms, failed.total_ms,
            failed.retry_in_ms)
    end
end

-- What a reply cost; nil where the price is not known.
local function cost_of(request, draft)
    if draft.origin then
        return 0.0
    end
    return price.cost(request.target.rates, draft.usage)
end

---@param log ponder.log.Recorder
---@param results table draft; or nil, message, code, partial
---@return table results for the script: what the log has, where that is not the same
function Call:answer(log, results)
    local draft, message, code, partial = table.unpack(results, 1, 4)
    write_failures(self, log)
    if not draft then
        write_answer(self, log, "error", partial, partial and (encode(partial)), message, code,
            partial and cost_of(self.request, partial))
        return results
    end
    if draft.origin then
        log:save(price.cost(self.request.target.rates, draft.usage))
    end
    local encoded, exact = encode(draft)
    local reply = redact.keep(encoded) -- the script gets what a later run will get
    write_answer(self, log, "ok", draft, reply, nil, nil, cost_of(self.request, draft))
    return exact and reply == encoded and results or { json.decode(reply), n = 1 }
end

---@param log ponder.log.Recorder
function Call:cancel(log)
    self:write_asked(log)
    write_failures(self, log)
    log:write("UPDATE calls SET status = 'cancelled', answered_at = ? WHERE run = ? AND id = ?",
        log.clock(), self.run, self.id)
end

-- How many of its attempts failed and may have been billed.
local function billed_attempts(db, run, id)
    local n = 0
    for code, status, message in db:rows("SELECT coalesce(code, ''), status, message "
        .. "FROM attempts WHERE run = ? AND call = ?", run, id) do
        n = n + (model_budget.is_billed(status, code, message) and 1 or 0)
    end
    return n
end

--- What the script gets of a row.
---@param db userdata
---@param run integer
---@param id integer
---@return table? results nil: they are damaged
function call.results(db, run, id)
    local status, reply, message, code = db:row(
        "SELECT status, reply, message, code FROM calls WHERE run = ? AND id = ?", run, id)
    local draft = reply and json.decode(reply)
    local billed = billed_attempts(db, run, id)
    if reply and not provider.is_draft(draft) or status == "ok" and not draft then
        return nil
    elseif status == "ok" then
        return { draft, n = 1, billed = billed }
    end
    return { nil, message, code, draft, n = 4, billed = billed }
end

--- What the log of this very run answers was paid for when it began.
---@param results table
---@param log ponder.log.Recorder
function Call:played(results, log)
    local draft, message, code, partial = table.unpack(results, 1, 4)
    local said = draft or partial
    log:spend(tally.clean(said and said.usage), said and cost_of(self.request, said))
    model_budget.charge(self.request, draft, message, code, partial, results.billed)
end

--- What the log of this very run does not answer may have been paid for all the same.
---@param db userdata
---@param run integer
---@param id integer
function Call:lost(db, run, id)
    local status = db:row("SELECT status FROM calls WHERE run = ? AND id = ?", run, id)
    local in_flight = (status == nil or status == "cancelled") and 1 or 0
    self.request.lost = in_flight > 0
    model_budget.charge_lost(self.request, billed_attempts(db, run, id) + in_flight)
end

--- Takes over an answer from another log.
---@param log ponder.log.Recorder
---@param results table
function Call:copy(log, results)
    local draft, message, code, partial = table.unpack(results, 1, 4)
    local said = draft or partial
    log:save(said and said.cost)
    if said then
        said.origin = "log"
    end
    write_answer(self, log, draft and "ok" or "error", said, said and (encode(said)), message, code,
        0.0)
end

return call
