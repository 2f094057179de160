--- Thresholds: conditions on the figures of an evaluation's result, such as
--- `lower(difference(tot)) > 0`.
---
---     CONDITION := FIGURE OPERATOR NUMBER          operators: >= > <= < ==
---     FIGURE    := METRIC(POLICY) | lower(METRIC(POLICY)) | upper(METRIC(POLICY))
---                | p50(METRIC(POLICY)) | p95(METRIC(POLICY)) | total(METRIC(POLICY))
---     METRIC    := accuracy | difference | p | cost_per_right
---                | calls | tokens | cost | time      means per item, time in seconds
---                | failed | stopped | no_answer      shares of the runs
---
--- `difference` and `p` refer to the baseline or, in a comparison, to the first evaluation; `p` is
--- adjusted for the number of comparisons, as in the table. A bound is safer than a value:
--- `lower(accuracy(tot)) >= 0.7` is met by chance in about 2.5 % of evaluations of a policy whose
--- accuracy is 0.7. A figure that was not measured does not meet its threshold.

local data = require "ponder.data"
local options = require "ponder.base.options"

local threshold = {}

---@class ponder.eval.Threshold
---@field text string its source
---@field part string "value", "lower", "upper", "p50", "p95", "total"

local METRICS = { "accuracy", "difference", "p", "cost_per_right", "calls", "tokens", "cost",
    "time", "failed", "stopped", "no_answer" }
local PARTS = { "lower", "upper", "p50", "p95", "total" }
local AMOUNTS = { calls = "calls", tokens = "tokens", cost = "cost", time = "seconds" }
local INTERVALS = { accuracy = true, difference = true, cost_per_right = true }

local function unknown(what, name, list)
    return ("unknown %s %s%s: one of %s"):format(what, options.show(name),
        options.hint(name, list, "%s"), table.concat(list, ", "))
end

-- The part, metric and policy of a figure; or nil, message.
local function read_figure(text)
    local outer, inner = text:match "^(%w+)%(%s*([%w_]+%b())%s*%)$"
    local metric, policy = (inner or text):match "^([%w_]+)(%b())$"
    if not metric then
        return nil, "expected METRIC(POLICY), such as accuracy(tot)"
    elseif outer and not options.has(PARTS, outer) then
        return nil, unknown("function", outer, PARTS)
    elseif not options.has(METRICS, metric) then
        return nil, unknown("metric", metric, METRICS)
    end
    local is_interval = outer == "lower" or outer == "upper"
    if outer and (is_interval and not INTERVALS[metric]
        or not is_interval and not AMOUNTS[metric]) then
        return nil, ("%s has no %s"):format(metric, outer)
    end
    policy = policy:sub(2, -2):match "^%s*(.-)%s*$"
    return outer or "value", metric, policy:match '^"(.*)"$' or policy
end

---Parses a threshold.
function threshold.parse(text)
    local figure, operator, number = text:match "^%s*(.-)%s*([<>=]=?)%s*([^%s<>=]+)%s*$"
    local limit = number and tonumber((number:gsub("%%$", "")))
    if not figure or not data.COMPARE[operator] or not limit then
        return nil, ("threshold %s: expected FIGURE OPERATOR NUMBER, such as accuracy(tot) >= 0.7")
            :format(options.show(text))
    end
    local part, metric, policy = read_figure(figure)
    if not part then
        return nil, ("threshold %s: %s"):format(options.show(text), metric)
    end
    return { text = text:match "^%s*(.-)%s*$", part = part, metric = metric, policy = policy,
        operator = operator, limit = number:find "%%$" and limit / 100 or limit }
end

-- The figure of a threshold; nil: not measured.
local function figure_of(one, policy)
    if AMOUNTS[one.metric] then
        local amounts = policy[AMOUNTS[one.metric]]
        return amounts and amounts[one.part == "value" and "mean" or one.part]
    elseif INTERVALS[one.metric] then
        local figure = policy[one.metric]
        return figure and figure[one.part]
    elseif one.metric == "p" then
        return policy.p_holm
    end
    local total = 0
    for _, count in pairs(policy.outcomes) do
        total = total + count
    end
    return total > 0 and policy.outcomes[one.metric] / total or nil
end

---Tests a threshold.
function threshold.test(one, policies)
    for _, policy in ipairs(policies) do
        if policy.name == one.policy then
            local value = figure_of(one, policy)
            return { text = one.text, value = value,
                met = value ~= nil and data.COMPARE[one.operator](value, one.limit) }
        end
    end
    return { text = one.text, met = false }
end

---Whether the policy of a threshold is one of these.
function threshold.check(one, names)
    if options.has(names, one.policy) then
        return true
    end
    return false, ("threshold %s: %s"):format(options.show(one.text),
        unknown("policy", one.policy, names))
end

return threshold
