--- TRM (tiny recursive model) as a pure state machine: messages in, directives out. It reasons
--- about an answer, grades and improves it, repeatedly; the answer with the best grade is the
--- result. After Jolicoeur-Martineau 2025, "Less is More: Recursive Reasoning with Tiny Networks",
--- applied to language models.
---
---     local trm = require "ponder.trm"
---     local machine = trm.new { max_supervision_steps = 5, act_threshold = 0.9 }
---     local directives = machine:update { type = "start", prompt = "...", call_id = "c0" }
---     -- {{type="reason", call_id="c0", step=1, context={...}}}
---
--- | message                                     | directive that follows                         |
--- |---------------------------------------------|------------------------------------------------|
--- | start{prompt, call_id}                      | reason{call_id, context, step, current_answer} |
--- | reasoning_result{call_id, ok, text, usage}  | supervise{...}, the same fields                |
--- | supervision_result{call_id, ok, text, usage} | improve, none at the end; supervise again if  |
--- |                                             | the text has no grade                          |
--- | improvement_result{call_id, ok, text, usage} | reason{...}, or none at the end               |
---
--- Status transitions, besides those to `error`; one call is open while the machine is busy:
---
--- | from        | to          | on          |
--- |-------------|-------------|-------------|
--- | idle        | reasoning   | start       |
--- | reasoning   | supervising | reasoning   |
--- | supervising | improving   | supervision |
--- | supervising | completed   | supervision |
--- | improving   | reasoning   | improvement |
--- | improving   | completed   | improvement |
---
--- `halt_check` says when in a step the machine decides whether to halt:
---
---   * `"after_supervision"`, as soon as an answer is graded. It checks, in this order,
---     `act_threshold` (the grade reached it), `convergence_detected` (the last three grades span
---     less than 0.02) and `max_steps`. So every improvement is graded.
---   * `"after_improvement"` checks `max_steps` first, then the other two. The last improvement is
---     not graded. This is the behaviour of the published machine.
---
--- Fields of a machine: `question`, `current_answer`, `answer_history` (improved answers),
--- `best_answer`, `best_score`, `latent_state`, `act_state`, `act_triggered`, `supervision_step`,
--- `supervision_feedback` and `parsed_feedback` (the last critique), `reasoning` (the last
--- reasoning, without the answer), `result`, the options, and the fields of all machines (see
--- ponder.machine).

local act = require "ponder.think.trm.act"
local json = require "ponder.json"
local machine = require "ponder.machine"
local options = require "ponder.base.options"
local prose = require "ponder.think.parse.prose"
local quote = require "ponder.quote"

local COUNT = 1000000000

local option_rules = {
    max_supervision_steps = { type = "integer", min = 1, max = COUNT, default = 5,
        help = "rounds of reasoning, critique and improvement" },
    act_threshold = { type = "number", min = 0, finite = true, default = 0.9,
        help = "a grade that ends the run" },
    halt_check = { type = "string", enum = { "after_supervision", "after_improvement" },
        default = "after_supervision", help = "when to check whether the run ends" },
    parse_supervision = { type = "function", takes = "fun(text: string): ponder.Supervision",
        help = "replaces the parser of critiques" },
}

-------------------------------------------------------------------------------
-- Fields

local function list_of(list)
    return json.array(table.move(list, 1, #list, 1, {}))
end

-- The last grade; 0.0 before the first.
local function confidence(run)
    return run.scores[#run.scores] or 0.0
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
        confidence_score = confidence(run),
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
        current_confidence = confidence(run),
        history = list_of(run.scores),
    }
end

local function parsed_feedback(run)
    local copy = run.feedback and {}
    for name, value in pairs(run.feedback or {}) do
        copy[name] = type(value) == "table" and list_of(value) or value
    end
    return copy
end

local fields = {
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

-------------------------------------------------------------------------------
-- Directives

---@class TrmContext the context of prompt functions (prompts/trm.lua)
---@field question string
---@field answer string?
---@field reasoning string?
---@field feedback ponder.Supervision?
---@field suggestions {content: string}[] those of the critique
---@field trace string[]
---@field step integer
---@field max_steps integer
---@field ungraded string? the last critique, if it has no grade on the requested scale

local function ask(run, turn, kind, call_id)
    local suggestions = {}
    for i, content in ipairs(run.feedback and run.feedback.suggestions or {}) do
        suggestions[i] = { content = content }
    end
    run:add_directive(turn, {
        type = kind,
        call_id = call_id,
        step = run.step,
        current_answer = run.answer,
        context = run:render(turn, kind, {
            question = run.prompt,
            answer = run.answer,
            reasoning = run.reasoning,
            feedback = run.feedback,
            suggestions = suggestions,
            trace = run.trace,
            step = run.step,
            max_steps = run.options.max_supervision_steps,
            ungraded = run.ungraded,
        }),
    })
end

-------------------------------------------------------------------------------
-- Messages

local function begin(run, turn, msg)
    run:start("reasoning", msg, turn.now, "reason")
    run.step = 1
    run:add_event(turn, "start", {}, {
        call_id = msg.call_id,
        question_length = utf8.len(run.prompt),
    })
    ask(run, turn, "reason", msg.call_id)
end

--- Closes a call and opens the next.
local function next_call(run, turn, call, status, kind)
    run:close_call(call.id)
    run.status = status
    ask(run, turn, kind, run:open_call(kind))
end

local VERDICTS = { threshold_exceeded = "act_threshold",
    convergence_detected = "convergence_detected" }

--- Why the run ends at this point of a step, or nil.
local function halt_reason(run, halt_check)
    local opts = run.options
    if opts.halt_check ~= halt_check then
        return nil
    end
    local spent = run.step >= opts.max_supervision_steps and "max_steps" or nil
    if spent and halt_check == "after_improvement" then
        return spent
    end
    local _, why = act.make_decision(act_state(run))
    return VERDICTS[why] or spent
end

local function complete(run, turn, call, reason)
    if reason ~= "max_steps" then
        run:add_event(turn, "act_triggered", {
            confidence = confidence(run),
            threshold = run.options.act_threshold,
        }, { call_id = call.id, step = run.step })
    end
    run:complete(turn, reason, call.id)
end

local TRACE_LENGTH <const> = 10 -- newest entries
local ENTRY_LENGTH <const> = 200 -- characters of a reply in an entry

-- Keeps the beginning of a reply in the trace, `"[phase] ..."`; each invalid byte counts as one
-- character.
local function remember(run, phase, text)
    -- A character has at most 4 bytes. A character cut here lies beyond the last one kept.
    local head = quote.utf8(text:sub(1, 4 * ENTRY_LENGTH + 3))
    local beyond = utf8.offset(head, ENTRY_LENGTH + 1)
    run.last_reply = text
    table.insert(run.trace, ("[%s] %s"):format(phase, beyond and head:sub(1, beyond - 1) or head))
    if #run.trace > TRACE_LENGTH then
        table.remove(run.trace, 1)
    end
end

local accept = {}

function accept.reason(run, turn, call, text)
    remember(run, "reasoning", text)
    run.reasoning = text
    if not run.answer then
        local answer, rest = prose.answer_element(text)
        run.answer, run.reasoning = answer or text, answer and rest
    end
    next_call(run, turn, call, "supervising", "supervise")
end

function accept.supervise(run, turn, call, feedback)
    local score = feedback.quality_score
    run.scores[#run.scores + 1] = score
    remember(run, "supervision", feedback.raw_text)
    run.feedback = feedback
    if score > run.best_score then
        run.best_answer, run.best_score = run.answer, score
    end
    run.ungraded, run.parse_retries = nil, 0
    run:add_event(turn, "step", {
        step = run.step,
        quality_score = score,
    }, {
        call_id = call.id,
        issues_count = #feedback.issues,
        suggestions_count = #feedback.suggestions,
    })
    local reason = halt_reason(run, "after_supervision")
    if reason then
        return complete(run, turn, call, reason)
    end
    next_call(run, turn, call, "improving", "improve")
end

function accept.improve(run, turn, call, text)
    remember(run, "improvement", text)
    run.answer = text
    run.answers[#run.answers + 1] = text
    local reason = halt_reason(run, "after_improvement")
    if reason then
        return complete(run, turn, call, reason)
    end
    run.step = run.step + 1
    next_call(run, turn, call, "reasoning", "reason")
end

local SCORE = { type = "number", min = 0, max = 1, required = true }

-- Copies a list of strings, nil as empty; or nil and what is wrong.
local function read_strings(list, where)
    if list == nil then
        return {}
    elseif type(list) ~= "table" then
        return nil, ("%s must be a list of strings (got %s)"):format(where, options.show(list))
    end
    local copy = {}
    for i, text in ipairs(list) do
        if type(text) ~= "string" then
            return nil, ("%s[%d] must be a string (got %s)"):format(where, i, options.show(text))
        end
        copy[i] = quote.utf8(text)
    end
    return copy
end

-- Checks a critique from a user's parser; or nil and what is wrong with it.
local function read_feedback(value, where, text)
    if type(value) ~= "table" then
        return nil, ("%s must be a table (got %s)"):format(where, options.show(value))
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

--- Parses a critique, with the user's parser if there is one; nil if it has no grade.
local function parse_supervision(run, text)
    local own = run.options.parse_supervision
    if not own then
        local feedback = prose.critique(text)
        return feedback.quality_score and feedback or nil
    end
    local feedback, problem = read_feedback(own(text), "parse_supervision: result", text)
    return feedback or error("trm: " .. problem, 0)
end

-- Asks again for a critique without a grade; never invents one.
local function unreadable(run, turn, call, text)
    if run.parse_retries >= run.options.max_parse_retries then
        return run:fail(turn, call.id, "grade_parse_failed")
    end
    run.ungraded, run.parse_retries = text, run.parse_retries + 1
    next_call(run, turn, call, "supervising", "supervise")
end

-------------------------------------------------------------------------------
-- The class

local trm = machine.class {
    name = "trm",
    steps = { { "idle", "start", "reasoning" }, { "reasoning", "reasoning", "supervising" },
        { "supervising", "supervision", "improving", "completed" },
        { "improving", "improvement", "reasoning", "completed" } },
    options = option_rules,
    prompts = {
        reason = "reasoning_prompt",
        supervise = "supervision_prompt",
        improve = "improvement_prompt",
    },
    replies = {
        reasoning_result = "reason",
        supervision_result = "supervise",
        improvement_result = "improve",
    },
    typed_replies_only = true,
    fields = fields,
    methods = {},
    create = function(run)
        run.trace = {} -- the beginnings of the last replies, oldest first
        run.answers = {} -- improved ones; run.answer is the current one, run.best_answer the best
        run.parse_retries = 0 -- of this step's critique
        run.step = 0 -- from 1; a step is a round through the three calls
        run.scores, run.best_score = {}, 0.0
    end,
    begin = begin,
    parse = function(run, call, text)
        if call.kind == "supervise" then
            return parse_supervision(run, text)
        end
        return text
    end,
    accept = function(run, turn, call, payload)
        accept[call.kind](run, turn, call, payload)
    end,
    unreadable = unreadable,
    complete_event = function(run)
        return { steps = run.step, best_score = run.best_score }, {}
    end,
}

-------------------------------------------------------------------------------
-- Functions

---Reads a graded critique: JSON, or lines such as `ISSUE: what is wrong` and `SCORE: 0.7`.
---@param text string
---@return ponder.Supervision
function trm.parse_supervision(text)
    return prose.critique(options.argument("trm.parse_supervision", "text", text, "string"))
end

---The halting arithmetic; see ponder.think.trm.act.
trm.act = act

local LATENT = "machine.latent_state"

machine.without("trm", trm, { parse_reasoning = "trm.parse_supervision",
    prioritize_suggestions = "machine.parsed_feedback.suggestions",
    check_act_condition = "machine.act_triggered",
    should_terminate_max_steps = "machine.supervision_step", initialize_latent_state = LATENT,
    update_latent_state = LATENT, merge_reasoning_trace = LATENT, extract_confidence = LATENT })

return trm
