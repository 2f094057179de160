--- Decides when an answer is good enough (`trm.act`): adaptive computation time (Graves 2016) as
--- the published TRM machine applies it to grades.
---
--- A history is a list of grades, oldest first. Arguments that are not numbers, or NaN, raise.

local options = require "ponder.base.options"

local act = {}

local WINDOW <const> = 3 -- grades that must agree for convergence
local EPSILON <const> = 0.02 -- they must span less than this
local DISCOUNT <const> = 0.8 -- expected next gain, as a share of recent gains
local UNKNOWN_GAIN <const> = 0.1 -- expected gain while fewer than two grades are known
local MIN_RATE <const> = 0.001
local QUALITY_WEIGHT <const>, LATENT_WEIGHT <const> = 0.6, 0.4

local function check_history(history, name)
    local where = "trm.act." .. name
    if type(history) ~= "table" then
        error(("%s: history must be a list of numbers (got %s)"):format(where,
            options.show(history)), 3)
    end
    for i = 1, #history do
        options.argument(where, "history", history[i], "number", 3)
    end
    return #history
end

local function clamp(x)
    return x > 0 and (x < 1 and x or 1.0) or 0.0
end

local function has_converged(history, window, epsilon)
    local n = #history
    if n < window then
        return false
    end
    local low, high = history[n], history[n]
    for i = n - window + 1, n do
        low, high = math.min(low, history[i]), math.max(high, history[i])
    end
    return high - low < epsilon
end

-- Mean of the last `count` differences. They are summed one by one, as in recorded runs: last minus
-- first would round differently.
local function mean_difference(history, count)
    local sum, n = 0.0, #history
    for i = n - count + 1, n do
        sum = sum + (history[i] + 0.0 - history[i - 1])
    end
    return sum / count
end

local function expected_improvement(history)
    local n = #history
    return n < 2 and UNKNOWN_GAIN or clamp(mean_difference(history, math.min(n - 1, 3)) * DISCOUNT)
end

---@class ActState
---@field threshold number a grade that ends the run
---@field current_confidence number the last grade
---@field history number[] all grades

---Whether to halt: if the threshold is reached, or the last three grades span less than 0.02.
---@param state ActState
---@return "halt"|"continue" verdict
---@return "threshold_exceeded"|"convergence_detected"|number detail why to halt; or the expected
---improvement of another step
function act.make_decision(state)
    options.argument("trm.act.make_decision", "state", state, "table")
    for _, name in ipairs { "threshold", "current_confidence" } do
        options.argument("trm.act.make_decision", name, state[name], "number")
    end
    check_history(state.history, "make_decision")
    if state.current_confidence >= state.threshold then
        return "halt", "threshold_exceeded"
    elseif has_converged(state.history, WINDOW, EPSILON) then
        return "halt", "convergence_detected"
    end
    return "continue", expected_improvement(state.history)
end

---Whether the last grades span less than `epsilon`; false with fewer than `window` of them.
---@param history number[]
---@param window? integer number of grades, default 3
---@param epsilon? number default 0.02
---@return boolean
function act.detect_convergence(history, window, epsilon)
    local where = "trm.act.detect_convergence"
    window = options.argument(where, "window", window or WINDOW, { type = "integer", min = 1 })
    epsilon = options.argument(where, "epsilon", epsilon or EPSILON, "number")
    check_history(history, "detect_convergence")
    return has_converged(history, window, epsilon)
end

---0.8 times the mean of the last three differences, within 0 to 1; 0.1 for fewer than two grades.
---@param history number[]
---@return number
function act.calculate_expected_improvement(history)
    check_history(history, "calculate_expected_improvement")
    return expected_improvement(history)
end

---The mean difference from one grade to the next; 0.0 for fewer than two.
---@param history number[]
---@return number
function act.improvement_rate(history)
    local n = check_history(history, "improvement_rate")
    return n < 2 and 0.0 or mean_difference(history, n - 1)
end

---The last grade minus the first, at least 0.
---@param history number[]
---@return number
function act.total_improvement(history)
    local n = check_history(history, "total_improvement")
    return n < 2 and 0.0 or math.max(0.0, history[n] + 0.0 - history[1])
end

---Estimates the steps from `current` to `target` at the rate so far, rounded up.
---@param current number
---@param target number
---@param history number[]
---@return number steps 0 if reached, else at least 1; `math.huge` if the rate is at most 0.001
function act.estimated_steps_remaining(current, target, history)
    options.argument("trm.act.estimated_steps_remaining", "current", current, "number")
    options.argument("trm.act.estimated_steps_remaining", "target", target, "number")
    local n = check_history(history, "estimated_steps_remaining")
    if current >= target then
        return 0
    end
    local rate = n < 2 and 0.0 or mean_difference(history, n - 1)
    return rate > MIN_RATE and math.max(1, math.ceil((target - current) / rate)) or math.huge
end

---0.6 times a grade plus 0.4 times the previous confidence, each clamped to 0..1.
---@param latent TrmLatentState|number|nil a latent state, or its confidence_score; nil counts as 0
---@param quality number the grade
---@return number
function act.calculate_confidence(latent, quality)
    if type(latent) == "table" then
        latent = latent.confidence_score
    end
    options.argument("trm.act.calculate_confidence", "confidence_score",
        latent == nil and 0.0 or latent, "number")
    options.argument("trm.act.calculate_confidence", "quality", quality, "number")
    return QUALITY_WEIGHT * clamp(quality) + LATENT_WEIGHT * clamp(latent or 0.0)
end

return act
