--- The readable side of a TRM machine: its fields, and the map it is saved as.

local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"

local views = {}

local array, show = json.array, options.show

local function list_of(list)
    return array(table.move(list, 1, #list, 1, {}))
end

-------------------------------------------------------------------------------
-- Fields

---The last grade; 0.0 before the first.
---@param run MachineRun
---@return number
function views.confidence(run)
    return run.scores[#run.scores] or 0.0
end

---The suggestions of a critique, as prompts get them.
---@param feedback ponder.Supervision?
---@return {content: string}[]
function views.suggestions(feedback)
    local list = {}
    for i, content in ipairs(feedback and feedback.suggestions or {}) do
        list[i] = { content = content }
    end
    return list
end

---@class TrmLatentState what the machine carries from one phase to the next besides the answer
---@field question_context string? the question
---@field answer_context string? the last reply
---@field reasoning_trace string[] the beginnings of the last replies, oldest first: `"[phase] ..."`
---@field confidence_score number the last grade, 0 to 1
---@field step_count integer improvements so far

local function latent_state(run)
    return {
        question_context = run.prompt,
        answer_context = run.last_reply,
        reasoning_trace = list_of(run.trace),
        confidence_score = views.confidence(run),
        step_count = #run.answers,
    }
end

---@class TrmActState
---@field threshold number
---@field current_confidence number the last grade
---@field history number[] all grades, oldest first

local function act_state(run)
    return {
        threshold = run.options.act_threshold,
        current_confidence = views.confidence(run),
        history = list_of(run.scores),
    }
end

local function parsed_feedback(run)
    local feedback = run.feedback
    return feedback and {
        strengths = list_of(feedback.strengths),
        issues = list_of(feedback.issues),
        suggestions = list_of(feedback.suggestions),
        quality_score = feedback.quality_score,
        raw_text = feedback.raw_text,
    }
end

views.fields = {
    question = "prompt",
    current_answer = "answer",
    answer_history = function(run)
        return list_of(run.answers)
    end,
    reasoning = "reasoning",
    latent_state = latent_state,
    act_state = act_state,
    act_triggered = function(run)
        return run.reason == "act_threshold" or run.reason == "convergence_detected"
    end,
    supervision_feedback = function(run)
        return run.feedback and run.feedback.raw_text
    end,
    parsed_feedback = parsed_feedback,
    supervision_step = "step",
    parse_retries = "parse_retries",
    ungraded = "ungraded",
    best_answer = "best_answer",
    best_score = "best_score",
    ---@return string? the answer with the best grade or, if no grade is above 0, the current one
    result = function(run)
        return run.status == "completed" and (run.best_answer or run.answer) or nil
    end,
}

---@return table measurements, table metadata of the `complete` event
function views.complete_event(run)
    return { steps = run.step, best_score = run.best_score }, {}
end

local SCORE = { type = "number", min = 0, max = 1, required = true }

--- Copies a list of strings, nil as empty; or nil and what is wrong.
local function read_strings(list, where)
    if list == nil then
        return {}
    elseif type(list) ~= "table" then
        return nil, ("%s must be a list of strings (got %s)"):format(where, show(list))
    end
    local copy = {}
    for i, text in ipairs(list) do
        if type(text) ~= "string" then
            return nil, ("%s[%d] must be a string (got %s)"):format(where, i, show(text))
        end
        copy[i] = quote.utf8(text)
    end
    return copy
end

---Checks a critique from a user's parser or a map; or nil and what is wrong with it.
---@param value any
---@param where string its name, for the message
---@param text string the text that it was parsed from
---@return ponder.Supervision?
---@return string? problem
function views.read_feedback(value, where, text)
    if type(value) ~= "table" then
        return nil, ("%s must be a table (got %s)"):format(where, show(value))
    end
    local feedback = { raw_text = text }
    for _, name in ipairs { "strengths", "issues", "suggestions" } do
        local list, problem = read_strings(value[name], where .. "." .. name)
        if not list then
            return nil, problem
        end
        feedback[name] = list
    end
    local score, problem = options.check_value(value.quality_score, SCORE)
    if problem then
        return nil, ("%s.quality_score %s"):format(where, problem)
    end
    feedback.quality_score = score + 0.0
    return feedback
end

return views
