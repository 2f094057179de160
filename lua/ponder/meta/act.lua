---@meta ponder.core.act
error("a description for editors, not a module")

---The halting arithmetic of adaptive computation time (Graves 2016), as the published TRM machine
---applies it to grades; offered as `trm.act`. A history is a list of grades, oldest first. What is
---no number where one is wanted (NaN counts as none) raises.
local act = {}

---@class ActState
---@field threshold number a grade that ends the run
---@field current_confidence number the last grade
---@field history number[] all grades

---Whether to halt: at the threshold first, then when the last three grades span less than 0.02.
---@param state ActState
---@return "halt"|"continue" verdict
---@return "threshold_exceeded"|"convergence_detected"|number detail why to halt; or the improvement
---that another step is expected to bring
function act.make_decision(state) end

---Whether the last grades span less than `epsilon`; false with fewer than `window` of them.
---@param history number[]
---@param window? integer grades looked at, default 3
---@param epsilon? number default 0.02
---@return boolean
function act.detect_convergence(history, window, epsilon) end

---0.8 times the mean of the last three differences, within 0 to 1; 0.1 for fewer than two grades.
---@param history number[]
---@return number
function act.calculate_expected_improvement(history) end

---The mean difference from one grade to the next; 0.0 for fewer than two.
---@param history number[]
---@return number
function act.improvement_rate(history) end

---The last grade minus the first, at least 0.
---@param history number[]
---@return number
function act.total_improvement(history) end

---How many steps it takes from `current` to `target` at the rate so far, rounded up.
---@param current number
---@param target number
---@param history number[]
---@return number steps 0 when reached, else at least 1; `math.huge` where the rate is 0.001 or less
function act.estimated_steps_remaining(current, target, history) end

---A grade and the confidence held before, each clamped to 0..1: 0.6 of the one, 0.4 of the other.
---@param latent TrmLatentState|number|nil a latent state, or its confidence_score; nil counts as 0
---@param quality number the grade
---@return number
function act.calculate_confidence(latent, quality) end

return act
