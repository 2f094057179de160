--- The readable side of a TRM machine: its fields, and the map it is saved as.

local json = require "ponder.json"
local options = require "ponder.options"
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

local function latent_state(run)
    local latent = run.latent
    return {
        question_context = latent.question_context,
        answer_context = latent.answer_context,
        reasoning_trace = list_of(latent.reasoning_trace),
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
        if run.core:status() == "completed" then
            return run.best_answer or run.answer
        end
    end,
}

---@return table measurements, table metadata of the `complete` event
function views.complete_event(run)
    return { steps = run.step, best_score = run.best_score }, {}
end

-------------------------------------------------------------------------------
-- Maps

---Adds all fields to a map.
function views.save(run, map)
    for name, field in pairs(views.fields) do
        map[name] = field(run)
    end
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

local function optional_text(reader, name)
    local text = reader.map[name]
    return text ~= nil and reader:text(name, text) or nil
end

local function text_list(reader, field, list)
    return reader:list_at(field, list, function(text, at)
        return reader:text(at, text)
    end)
end

local function load_latent(reader)
    local state = reader:get("latent_state", { type = "table", required = true })
    local function text(name)
        local value = state[name]
        return value ~= nil and reader:text("latent_state." .. name, value) or nil
    end
    return {
        question_context = text "question_context",
        answer_context = text "answer_context",
        reasoning_trace = text_list(reader, "latent_state.reasoning_trace", state.reasoning_trace),
    }
end

local function load_feedback(reader)
    local value = reader.map.parsed_feedback
    if value == nil then
        return nil
    end
    reader:check("parsed_feedback", value, { type = "table" })
    local feedback, problem = views.read_feedback(value, "parsed_feedback",
        reader:text("parsed_feedback.raw_text", value.raw_text))
    if not feedback then
        reader:refuse(problem:match("^(%S+) (.*)$"))
    end
    return feedback
end

local REASONS = { act_threshold = true, convergence_detected = true, max_steps = true }

local KIND_OF = { reasoning = "reason", supervising = "supervise", improving = "improve" }

--- Whether the numbers of steps, grades, improvements and open calls fit the status:
---
---                                     grades    improvements
---     reasoning, supervising          n - 1     n - 1
---     improving                       n         n - 1
---     completed                       n         n - 1, or n when halted after the improvement
---     error                           n - 1 or n, and n - 1
local function fits(run, open_calls)
    local status, before = run.core:status(), run.step - 1
    local grades, improvements = #run.scores, #run.answers
    if status == "idle" then
        return run.step == 0 and grades == 0 and improvements == 0
    elseif KIND_OF[status] then
        local _, kind = run.core:current_call()
        return open_calls == 1 and kind == KIND_OF[status] and improvements == before
            and grades == (status == "improving" and run.step or before)
    elseif status == "completed" then
        return grades == run.step and (improvements == before or improvements == run.step)
    end
    return improvements == before and (grades == before or grades == run.step)
end

--- Refuses fields that are missing or present against the status and the grades.
local function check_consistency(run, reader)
    local status, improvements = run.core:status(), #run.answers
    local grades = #run.scores
    local function check_presence(field, is_present, is_required)
        if is_required ~= is_present then
            reader:refuse(field, is_required and "is required" or "must be nil")
        end
    end
    if status == "completed" and not REASONS[run.reason] then
        reader:refuse("termination_reason", ("must be a reason to halt (got %s)")
            :format(show(run.reason)))
    elseif status == "error" and run.reason ~= "error" then
        reader:refuse("termination_reason", ('must be "error" (got %s)'):format(show(run.reason)))
    end
    if improvements > 0 and run.answer ~= run.answers[improvements] then
        reader:refuse("current_answer", "must be the last of answer_history")
    elseif improvements == 0 and (status ~= "error" or grades > 0) then
        check_presence("current_answer", run.answer ~= nil,
            status ~= "idle" and status ~= "reasoning")
    end
    check_presence("parsed_feedback", run.feedback ~= nil, grades > 0)
    check_presence("best_answer", run.best_answer ~= nil, run.best_score > 0)
    if grades > 0 and run.feedback.quality_score ~= views.confidence(run) then
        reader:refuse("parsed_feedback.quality_score", "must be the last of act_state.history")
    end
end

---Reads the fields of the class; a mistake raises.
---@param run MachineRun
---@param reader MapReader
function views.load(run, reader)
    local count = { type = "integer", min = 0, max = 1000000000, required = true }
    local act = reader:get("act_state", { type = "table", required = true })
    run.scores = reader:list_at("act_state.history", act.history, function(score, at)
        return reader:check(at, score, SCORE) + 0.0
    end)
    for _, score in ipairs(run.scores) do
        run.best_score = math.max(run.best_score, score)
    end
    run.answer = optional_text(reader, "current_answer")
    run.best_answer = optional_text(reader, "best_answer")
    run.reasoning = optional_text(reader, "reasoning")
    run.answers = text_list(reader, "answer_history", reader.map.answer_history)
    run.parse_retries = reader:check("parse_retries", reader.map.parse_retries,
        { type = "integer", min = 0, max = 1000000000 }) or 0
    run.ungraded = optional_text(reader, "ungraded")
    run.latent = load_latent(reader)
    run.feedback = load_feedback(reader)
    run.step = reader:get("supervision_step", count)
    if not fits(run, #run.core:save().calls) then
        reader:refuse("supervision_step",
            "must fit the status and the numbers of grades and answers")
    end
    check_consistency(run, reader)
end

return views
