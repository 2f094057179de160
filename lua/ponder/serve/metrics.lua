--- A server's counters and histograms, in Prometheus's text format.

local metrics = {}

---@class ponder.serve.Metrics
local Metrics = {}
Metrics.__index = Metrics

local BUCKETS = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300 }

---@return ponder.serve.Metrics
function metrics.new()
    return setmetatable({ counters = {}, histograms = {}, order = {} }, Metrics)
end

local function escaped(value)
    return (tostring(value):gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }))
end

-- {policy="a",status="200"}, from names and values in turn.
local function labels_of(list)
    local parts = {}
    for i = 1, #list, 2 do
        parts[#parts + 1] = ('%s="%s"'):format(list[i], escaped(list[i + 1]))
    end
    return parts[1] and "{" .. table.concat(parts, ",") .. "}" or ""
end

local function family(self, kind, name, help)
    local one = self[kind][name]
    if not one then
        one = { help = help, name = name, kind = kind, series = {}, order = {} }
        self[kind][name] = one
        self.order[#self.order + 1] = one
    end
    return one
end

local function new_counter() return {} end

local function series(one, key, first)
    local value = one.series[key]
    if not value then
        value = first()
        one.series[key] = value
        one.order[#one.order + 1] = key
    end
    return value
end

---Adds to a counter.
---@param name string
---@param help string
---@param amount number
---@param ... string names and values of its labels in turn
function Metrics:add(name, help, amount, ...)
    local one = series(family(self, "counters", name, help), table.concat({ ... }, "\0"),
        new_counter)
    one[1] = (one[1] or 0) + amount
    one.labels = one.labels or labels_of { ... }
end

local function new_histogram()
    local counts = { sum = 0.0, count = 0 }
    for i = 1, #BUCKETS + 1 do
        counts[i] = 0
    end
    return counts
end

---Adds a duration to a histogram.
---@param name string
---@param help string
---@param seconds number
---@param policy string
function Metrics:observe(name, help, seconds, policy)
    local one = series(family(self, "histograms", name, help), policy, new_histogram)
    local i = 1
    while i <= #BUCKETS and seconds > BUCKETS[i] do
        i = i + 1
    end
    one.sum, one.count, one[i] = one.sum + seconds, one.count + 1, one[i] + 1
end

local function write_histogram(lines, one, policy)
    local counts, sum = one.series[policy], 0
    for i, bound in ipairs(BUCKETS) do
        sum = sum + counts[i]
        lines[#lines + 1] = ("%s_bucket%s %d"):format(one.name,
            labels_of { "policy", policy, "le", bound }, sum)
    end
    lines[#lines + 1] = ("%s_bucket%s %d"):format(one.name,
        labels_of { "policy", policy, "le", "+Inf" }, counts.count)
    lines[#lines + 1] = ("%s_sum%s %.9g"):format(one.name, labels_of { "policy", policy },
        counts.sum)
    lines[#lines + 1] = ("%s_count%s %d"):format(one.name, labels_of { "policy", policy },
        counts.count)
end

---All metrics in Prometheus's text format.
---@param gauges {[1]: string, [2]: string, [3]: number|table}[] name, help and value; or, instead
---  of one value, a list of tables: each a list of label names and values, with a field `value`
---@return string
function Metrics:text(gauges)
    local lines = {}
    for _, gauge in ipairs(gauges) do
        local name, values = gauge[1], gauge[3]
        lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s gauge"):format(name, gauge[2], name)
        for _, one in ipairs(type(values) == "table" and values or { { value = values } }) do
            lines[#lines + 1] = ("%s%s %.9g"):format(name, labels_of(one), one.value)
        end
    end
    for _, one in ipairs(self.order) do
        lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s %s"):format(one.name, one.help, one.name,
            one.kind == "counters" and "counter" or "histogram")
        for _, key in ipairs(one.order) do
            if one.kind == "counters" then
                local counter = one.series[key]
                lines[#lines + 1] = ("%s%s %.9g"):format(one.name, counter.labels, counter[1])
            else
                write_histogram(lines, one, key)
            end
        end
    end
    return table.concat(lines, "\n") .. "\n"
end

return metrics
