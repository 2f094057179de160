--- The latent state of a TRM machine: what it carries from one phase to the next besides the
--- answer. States are plain tables; functions return new ones and do not change their arguments.

local options = require "ponder.options"
local quote = require "ponder.quote"

local latent = {}

local TRACE_LENGTH <const> = 10 -- newest entries
local ENTRY_LENGTH <const> = 200 -- characters of a reply in an entry

---@class TrmLatentState
---@field question_context string? the question
---@field answer_context string? the last reply
---@field reasoning_trace string[] the beginnings of the last replies, oldest first: `"[phase] ..."`
---@field confidence_score number the last grade, 0 to 1
---@field step_count integer improvements so far

--- The first characters of a text; each invalid byte counts as one.
local function beginning(text)
    if #text <= ENTRY_LENGTH then
        return quote.utf8(text)
    end
    -- A character has at most 4 bytes. A character cut here lies beyond the last one returned.
    local head = quote.utf8(text:sub(1, 4 * ENTRY_LENGTH + 3))
    local beyond = utf8.offset(head, ENTRY_LENGTH + 1)
    return beyond and head:sub(1, beyond - 1) or head
end

---@param question string?
---@param answer string?
---@return TrmLatentState
function latent.initialize(question, answer)
    return {
        question_context = question,
        answer_context = answer,
        reasoning_trace = {},
        confidence_score = 0.0,
        step_count = 0,
    }
end

---The state after a reply, which becomes the answer_context and an entry of the trace.
---@param state TrmLatentState
---@param phase string `"reasoning"`, `"supervision"`, `"improvement"`
---@param content string the reply
---@return TrmLatentState
function latent.update(state, phase, content)
    options.argument("trm.update_latent_state", "latent", state, "table")
    options.argument("trm.update_latent_state", "phase", phase, "string")
    options.argument("trm.update_latent_state", "content", content, "string")
    return {
        question_context = state.question_context,
        answer_context = content,
        reasoning_trace = latent.merge_trace(state.reasoning_trace or {},
            "[" .. phase .. "] " .. beginning(content)),
        confidence_score = state.confidence_score,
        step_count = state.step_count,
    }
end

---The last 10 entries of the trace after adding one.
---@param trace string[]
---@param entry string
---@return string[]
function latent.merge_trace(trace, entry)
    options.argument("trm.merge_reasoning_trace", "trace", trace, "table")
    options.argument("trm.merge_reasoning_trace", "entry", entry, "string")
    local from = math.max(1, #trace - TRACE_LENGTH + 2)
    local merged = table.move(trace, from, #trace, 1, {})
    merged[#merged + 1] = entry
    return merged
end

---@param state TrmLatentState
---@return number confidence 0.0 if the state has none
function latent.confidence(state)
    options.argument("trm.extract_confidence", "latent", state, "table")
    return state.confidence_score or 0.0
end

return latent
