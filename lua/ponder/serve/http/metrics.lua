--- A server's counters and histograms, in Prometheus's text format.

local metrics = {}

---@class ponder.serve.Metrics
local Metrics = {}
Metrics.__index = Metrics

local BUCKETS = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300 }

-- Kind, name, help and the names of one or two labels.
local FAMILIES = {
    { "counter", "ponder_requests_total", "Requests by policy and status", "policy", "status" },
    { "counter", "ponder_errors_total", "Failed requests by code", "code" },
    { "histogram", "ponder_request_seconds", "Time to the end of the answer", "policy" },
    { "histogram", "ponder_first_byte_seconds", "Time to the first event of a stream", "policy" },
    { "counter", "ponder_model_calls_total", "Model calls made", "policy" },
    { "counter", "ponder_tokens_total", "Tokens of model calls", "policy", "kind" },
    { "counter", "ponder_cost_usd_total", "Cost of model calls, where prices are known", "policy" },
}

function metrics.new()
    local self = setmetatable({}, Metrics)
    for _, family in ipairs(FAMILIES) do
        self[family[2]] = { about = family, by_labels = {}, series = {} }
    end
    return self
end

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

-- {policy="a",status="200"}, from names and values in turn.
local function labels_of(list)
    local parts = {}
    for i = 1, #list, 2 do
        parts[#parts + 1] = ('%s="%s"'):format(list[i],
            tostring(list[i + 1]):gsub('[\\"\n]', ESCAPES))
    end
    return parts[1] and "{" .. table.concat(parts, ",") .. "}" or ""
end

-- The series of a family with these labels.
local function series(family, a, b)
    local key = b and a .. "\0" .. b or a
    local one = family.by_labels[key]
    if not one then
        one = { sum = 0, count = 0, labels = { family.about[4], a, family.about[5], b } }
        family.by_labels[key], family.series[#family.series + 1] = one, one
    end
    return one
end

---Adds to the counter with one label or two.
function Metrics:add(name, amount, a, b)
    local one = series(self[name], a, b)
    one.sum = one.sum + amount
end

---Adds a duration to a histogram.
function Metrics:observe(name, seconds, policy)
    local one, i = series(self[name], policy), 1
    while i <= #BUCKETS and seconds > BUCKETS[i] do
        i = i + 1
    end
    one.sum, one.count, one[i] = one.sum + seconds, one.count + 1, (one[i] or 0) + 1
end

local function write_histogram(lines, name, one)
    local sum, label, policy = 0, one.labels[1], one.labels[2]
    for i, bound in ipairs(BUCKETS) do
        sum = sum + (one[i] or 0)
        lines[#lines + 1] = ("%s_bucket%s %d"):format(name,
            labels_of { label, policy, "le", bound }, sum)
    end
    lines[#lines + 1] = ("%s_bucket%s %d"):format(name, labels_of { label, policy, "le", "+Inf" },
        one.count)
    lines[#lines + 1] = ("%s_sum%s %.9g"):format(name, labels_of(one.labels), one.sum)
    lines[#lines + 1] = ("%s_count%s %d"):format(name, labels_of(one.labels), one.count)
end

---All metrics in Prometheus's text format.
---@param gauges {[1]: string, [2]: string, [3]: number|table}[] name, help and value; or, instead
---  of one value, a list of tables: each a list of label names and values, with a field `value`
function Metrics:text(gauges)
    local lines = {}
    for _, gauge in ipairs(gauges) do
        local name, values = gauge[1], gauge[3]
        lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s gauge"):format(name, gauge[2], name)
        for _, one in ipairs(type(values) == "table" and values or { { value = values } }) do
            lines[#lines + 1] = ("%s%s %.9g"):format(name, labels_of(one), one.value)
        end
    end
    for _, about in ipairs(FAMILIES) do
        local kind, name = about[1], about[2]
        local list = self[name].series
        if list[1] then
            lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s %s"):format(name, about[3], name, kind)
        end
        for _, one in ipairs(list) do
            if kind == "histogram" then
                write_histogram(lines, name, one)
            else
                lines[#lines + 1] = ("%s%s %.9g"):format(name, labels_of(one.labels), one.sum)
            end
        end
    end
    return table.concat(lines, "\n") .. "\n"
end

return metrics
