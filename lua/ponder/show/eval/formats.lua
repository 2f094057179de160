--- Writes an evaluation's result for other programs: CSV of the records, JUnit XML for CI.

local json = require "ponder.json"
local text = require "ponder.show.text"

local formats = {}

local COLUMNS = { "policy", "id", "epoch", "outcome", "score", "answer", "target", "why", "code",
    "message", "samples", "calls", "tokens", "cost", "seconds", "critical_seconds", "score_cost",
    "estimated_tokens", "estimated_cost" }

local function as_text(value)
    if type(value) == "table" then
        return json.encode(value)
    elseif value == nil then
        return ""
    end
    return math.type(value) == "float" and ("%.17g"):format(value) or tostring(value)
end

-- RFC 4180. An apostrophe keeps spreadsheets from reading a text as a formula.
local function csv_field(value)
    local field = as_text(value)
    if type(value) == "string" and field:find "^[=+@\t\r-]" and not tonumber(field) then
        field = "'" .. field
    end
    if field:find '[",\r\n]' then
        return '"' .. field:gsub('"', '""') .. '"'
    end
    return field
end

---A header line, then one line per record.
function formats.csv(result)
    local lines = { table.concat(COLUMNS, ",") }
    for i, record in ipairs(result.records) do
        local fields = {}
        for j, name in ipairs(COLUMNS) do
            fields[j] = csv_field(record[name])
        end
        lines[i + 1] = table.concat(fields, ",")
    end
    return table.concat(lines, "\r\n") .. "\r\n"
end

local ESCAPES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;",
    ["\n"] = "&#10;" }

-- Escapes a value, without what XML cannot hold: control characters and invalid UTF-8.
local function xml(value)
    return (text.safe(as_text(value)):gsub("[%z\1-\8\11-\31\127]", ""):gsub('[&<>"\n]', ESCAPES))
end

-- Adds the lines of a record; returns how many failures it is.
local function test_case(lines, policy, record)
    lines[#lines + 1] = ('    <testcase classname="%s" name="%s" time="%.6f">'):format(xml(policy),
        xml(record.epoch > 1 and ("%s #%d"):format(record.id, record.epoch) or record.id),
        record.seconds or 0)
    local message = record.message or record.why or ("score " .. as_text(record.score))
    if record.outcome == "failed" then
        lines[#lines + 1] = ('      <error type="%s" message="%s"/>'):format(xml(record.code),
            xml(message))
    end
    local is_failure = record.outcome ~= "failed" and record.outcome ~= "right"
        and not (record.outcome == "stopped" and (record.score or 0) >= 1)
    if is_failure then
        lines[#lines + 1] = ('      <failure type="%s" message="%s">%s</failure>'):format(
            record.outcome, xml(message), xml(record.answer))
    end
    lines[#lines + 1] = "    </testcase>"
    return is_failure and 1 or 0
end

local function add_suite(lines, name, cases, tests, failures, errors, seconds)
    lines[#lines + 1] = ('  <testsuite name="%s" tests="%d" failures="%d" errors="%d" time="%.6f">')
        :format(xml(name), tests, failures, errors, seconds)
    table.move(cases, 1, #cases, #lines + 1, lines)
    lines[#lines + 1] = "  </testsuite>"
end

---JUnit XML: a suite per policy with a case per record, and a suite of thresholds.
---@param result ponder.eval.Result with `thresholds`, what ponder.judge.eval.threshold found
function formats.junit(result)
    local lines = { '<?xml version="1.0" encoding="UTF-8"?>',
        ('<testsuites name="%s">'):format(xml(result.meta.name)) }
    for _, policy in ipairs(result.policies) do
        local cases, tests, failures = {}, 0, 0
        for _, record in ipairs(result.records) do
            if record.policy == policy.name then
                tests = tests + 1
                failures = failures + test_case(cases, policy.name, record)
            end
        end
        add_suite(lines, policy.name, cases, tests, failures, policy.outcomes.failed,
            policy.seconds and policy.seconds.total or 0)
    end
    local missed, cases = 0, {}
    for i, one in ipairs(result.thresholds) do
        missed = missed + (one.met and 0 or 1)
        cases[i] = ('    <testcase classname="thresholds" name="%s">%s</testcase>'):format(
            xml(one.text), one.met and "" or ('<failure type="threshold" message="%s"/>'):format(
            one.value and "it is " .. as_text(one.value) or "not measured"))
    end
    if cases[1] then
        add_suite(lines, "thresholds", cases, #cases, missed, 0, 0)
    end
    lines[#lines + 1] = "</testsuites>"
    return table.concat(lines, "\n") .. "\n"
end

return formats
