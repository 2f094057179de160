--- A model call in the log: a row of `calls`.

local json = require "ponder.json"
local quote = require "ponder.quote"
local redact = require "ponder.base.redact"
local store = require "ponder.core.store"
local tally = require "ponder.base.tally"

local call = {}

---@class ponder.log.Asked a model call: columns of `calls`, and what else the model tells
---@field task ponder.task.Handle that asks
---@field identity string equal requests have equal identities
---@field provider string
---@field model string
---@field sample integer
---@field samples integer
---@field request string
---@field metadata string?
---@field label string of the model, for people
---@field messages table[]
---@field replace_prompt fun(text: string) for a fork that edits the prompt; `identity` stays
---@field by_batch boolean? it is sent in a batch: ponder.run.log.batches knows whether it was
---@field hash string? set here: the hash of its identity
---@field run integer? set here, like `id` and `clock`, once the call is asked
---@field id integer?
---@field clock (fun(): number)?
---@field played ponder.log.Failure[]? set here: the log of this run answers it, after these
---@field lost ponder.log.Failure[]? set here: the log of this run has it without an answer, with
---  these failed attempts
---@field in_flight boolean? likewise: an attempt was sent, and its outcome is unknown
---@field attempts integer set by the model: sent by this process
---@field failures ponder.log.Failure[] likewise, failed ones among these attempts
---@field queued_at number? likewise, like `sent_at`, on `clock`
---@field cost number? likewise, at nominal price, whoever answers

---@class ponder.log.Failure columns of `attempts`

---@class ponder.log.Call: ponder.log.Operation
---@field asked ponder.log.Asked
local Call = { kind = "call" }
Call.__index = Call

---@return ponder.log.Call
function call.new(asked)
    local identity = redact.keep(asked.identity) -- as the log stores it
    asked.hash = store.sha256(identity)
    return setmetatable({ asked = asked, identity = asked.hash, -- fields set later:
        by = nil, asker = nil, within = nil, within_id = nil, occurrence = nil, id = nil, run = nil,
        search = nil, node = nil, purpose = nil }, Call)
end

local LABEL_BYTES = 60

---The columns that tell it from other calls.
function Call:columns()
    return self.identity
end

--- The operation in a few words, for people.
---@return string "the call to openai:gpt-5-mini (Use 4 4 6 8 to make...)"
function Call:describe()
    local messages = self.asked.messages
    local content = messages[#messages].content or ""
    local text = (type(content) == "string" and content or json.encode(content)):gsub("%s+", " ")
    if #text > LABEL_BYTES then
        text = quote.head(text, LABEL_BYTES - 3) .. "..."
    end
    return ("the call to %s (%s)"):format(self.asked.label, text)
end

---------------------------------------------------------------------------------------------------
-- Replies as JSON

local NONE = {}
local SAMPLE = { text = "string", reasoning = "string", tool_calls = "table" }

--- A reply (ponder.model.Draft) that anybody may have written, with only what is valid of its usage
--- and cost; nil: the value is not a reply.
function call.checked(value)
    if type(value) ~= "table" or type(value.samples) ~= "table"
        or value.usage ~= nil and type(value.usage) ~= "table" then
        return nil
    end
    for _, sample in ipairs(value.samples) do
        if type(sample) ~= "table" then
            return nil
        end
        for name, kind in pairs(SAMPLE) do
            if sample[name] ~= nil and type(sample[name]) ~= kind then
                return nil
            end
        end
        for _, tool_call in ipairs(sample.tool_calls or NONE) do
            if type(tool_call) ~= "table" then
                return nil
            end
        end
    end
    value.usage, value.cost = tally.clean(value.usage), value.cost and tally.usd(value.cost)
    return value
end

---Encodes a reply. Removes the server's own form from it if that is not JSON (it may hold an
---infinity), so that a replay gets the same.
function call.encode(draft)
    local ok, text = pcall(json.encode, draft)
    if ok then
        return text
    end
    draft.raw = nil
    return json.encode(draft)
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
local ANSWER = ("UPDATE calls SET (%s) = (%s) WHERE run = ?1 AND id = ?2"):format(
    table.concat(ANSWERED, ", "), ("?, "):rep(#ANSWERED - 1):gsub("?", "?3", 1) .. "?")

function Call:insert(tape)
    local asker, asked = self.asker, self.asked
    if asker then
        self.search, self.node, self.purpose = asker.tree:asks(tape, asker)
    end
    self.run, asked.run, asked.id, asked.clock = tape.id, tape.id, self.id, tape.clock
    tape.writer:write(ASK, self.run, self.id, tape.session, self.identity, self.occurrence,
        asked.provider, asked.model, asked.sample, asked.samples, asked.request, asked.metadata,
        self.within_id, self.search, self.node, self.purpose, tape.clock())
end

function Call:ask_again(tape)
    local asked = self.asked
    self.run, asked.run, asked.id, asked.clock = tape.id, tape.id, self.id, tape.clock
    if not asked.by_batch then
        tape:write([[INSERT INTO attempts (run, call, attempt, at, code, message)
            SELECT run, id, coalesce(attempts, 1), answered_at, code, message FROM calls
            WHERE run = ?1 AND id = ?2 AND status = 'error'
            AND NOT EXISTS (SELECT 1 FROM attempts WHERE run = ?1 AND call = ?2)]], self.run,
            self.id)
        tape:write([[INSERT INTO attempts (run, call, attempt, at, code, message)
            SELECT run, id, 1, ?, 'KILLED', 'the process ended before its reply came' FROM calls
            WHERE run = ? AND id = ? AND status IS NULL]], tape.clock(), self.run, self.id)
    end
    tape:write("UPDATE calls SET session = ?, asked_at = ?, status = NULL WHERE run = ? AND id = ?",
        tape.session, tape.clock(), self.run, self.id)
end

local function write_answer(self, tape, status, draft, message, code)
    local asked, reply = self.asked, draft or NONE
    local usage = reply.usage or NONE
    tape.writer:write(ANSWER, self.run, self.id, status, reply.origin or "live", asked.queued_at,
        asked.sent_at, tape.clock(), draft and call.encode(draft), code, message,
        tonumber(reply.latency_ms), tonumber(reply.time_to_first_ms),
        math.tointeger(reply.attempts) or asked.attempts, usage.input_tokens, usage.output_tokens,
        usage.total_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
        usage.reasoning_tokens, reply.origin and 0.0 or asked.cost)
end

local function write_failures(self, tape)
    for _, failed in ipairs(self.asked.failures) do
        tape:write([[INSERT INTO attempts (run, call, attempt, at, status, code, message, queue_ms,
            total_ms, retry_in_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]], self.run, self.id,
            failed.attempt, failed.at, failed.status, failed.code, failed.message,
            failed.queue_ms, failed.total_ms, failed.retry_in_ms)
    end
end

---@param results table draft; or nil, message, code, partial
---@return table results as they are: only what is written loses secrets
function Call:answer(tape, results)
    local draft, message, code, partial = table.unpack(results, 1, 4)
    if self.asked.failures[1] then
        write_failures(self, tape)
    end
    if draft and draft.origin then
        tape:count_saved(self.asked.cost)
    end
    write_answer(self, tape, draft and "ok" or "error", draft or partial, message, code)
    return results
end

function Call:cancel(tape)
    write_failures(self, tape)
    tape:write("UPDATE calls SET status = 'cancelled', answered_at = ?, attempts = ? "
        .. "WHERE run = ? AND id = ?", tape.clock(), self.asked.attempts, self.run, self.id)
end

-- Returns the failed attempts of a call.
local function failures_of(db, run, id)
    local failures = {}
    for row in db:columns("SELECT status, code, message FROM attempts WHERE run = ? AND call = ?",
        run, id) do
        failures[#failures + 1] = row
    end
    return failures
end

--- Reads the results of a call, as the script gets them.
---@return table? results nil if the row is damaged. `failures`: the failed attempts; `attempts`:
---  how many a failed call made
function call.results(db, run, id)
    local status, reply, message, code, attempts, has_failed = db:row("SELECT status, reply, "
        .. "message, code, coalesce(attempts, 0), EXISTS (SELECT 1 FROM attempts WHERE run = ?1 "
        .. "AND call = ?2) FROM calls WHERE run = ?1 AND id = ?2", run, id)
    local draft = reply and call.checked(json.decode(reply))
    local failures = has_failed == 1 and failures_of(db, run, id) or {}
    if not draft and (reply or status == "ok") then
        return nil
    elseif status == "ok" then
        return { draft, n = 1, failures = failures }
    end
    return { nil, message, code, draft, n = 4, failures = failures, attempts = attempts }
end

--- Finds what previous processes may have paid for a call that the log of this run does not answer.
function Call:find_lost(db, run)
    local id = self.known.id
    local status = db:row("SELECT status FROM calls WHERE run = ? AND id = ?", run, id)
    self.asked.lost = failures_of(db, run, id)
    self.asked.in_flight = not self.asked.by_batch and (status == nil or status == "cancelled")
end

--- Stores an answer copied from another log.
function Call:copy(tape, results)
    local draft, message, code, partial = table.unpack(results, 1, 4)
    local reply = draft or partial
    tape:count_saved(reply and reply.cost)
    if reply then
        reply.origin = "log"
    end
    self.asked.cost = 0.0
    write_answer(self, tape, draft and "ok" or "error", reply, message, code)
end

return call
