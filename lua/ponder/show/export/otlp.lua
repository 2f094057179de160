--- Exports a run as OpenTelemetry traces (OTLP/JSON), to a file or to a collector.

local json = require "ponder.json"
local quote = require "ponder.quote"
local redact = require "ponder.base.redact"
local spans = require "ponder.show.spans"
local transport = require "ponder.model.transport"

local export = {}

local MAX_BYTES = 1 << 20 -- of the spans of one request
local MAX_SPANS = 1000
local TIMEOUT_MS = 30000
local PATH = "/v1/traces"

-------------------------------------------------------------------------------
-- To a collector

-- The headers that the environment names for traces: "key=value,key=value", percent-encoded; or nil
-- and what is wrong with them.
local function headers_of_environment()
    local headers = { ["content-type"] = "application/json" }
    for _, variable in ipairs { "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS" } do
        for pair in (os.getenv(variable) or ""):gmatch("[^,]+") do
            local name, value = pair:match("^%s*([^=%s]+)%s*=%s*(.-)%s*$")
            if not name and pair:find("%S") then
                return nil, variable .. ": expected name=value, separated by commas"
            elseif name then
                value = quote.percent_decode(value)
                if name:find("[^%w!#$&'*+.^_`|~-]") or value:find("[%c]") then
                    return nil, variable .. ": invalid header"
                end
                headers[name:lower()] = value
            end
        end
    end
    return headers
end

---The URL for traces; one without a path gets OTLP's.
function export.endpoint(url)
    local base, path, rest = url:match("^(%a[%w+.-]*://[^/?#]*)(/?[^?#]*)(.*)$")
    if base and (path == "" or path == "/") then
        return base .. PATH .. rest
    end
    return url
end

-- Sends a body; returns why that failed, if it did.
local function send(to, body)
    local message
    local result = to.transport:send { url = to.url, method = "POST", headers = to.headers,
        body = body, timeout_ms = TIMEOUT_MS }
    if result.code then
        message = result.error
    elseif result.status < 200 or result.status > 299 then
        local detail = (result.body or ""):gsub("%c+", " "):sub(1, 200)
        message = ("status %d%s"):format(result.status, detail ~= "" and ": " .. detail or "")
    else
        local reply = json.decode(result.body or "")
        local partial = type(reply) == "table" and reply.partialSuccess
        local rejected = type(partial) == "table" and tonumber(partial.rejectedSpans) or 0
        message = rejected > 0 and ("%s rejected: %s"):format(quote.count(rejected, "span was",
            "spans were"), tostring(partial.errorMessage))
    end
    return message and quote.line(to.redactor:text(("%s: %s"):format(to.url, message)), 1000)
end

---Sends the spans of a log in requests of bounded size. Spans have the same ids each time, so that
---a run can be sent again after a failure.
---@param opts {otlp: string, content: boolean?}
---@return string? trace_id 32 hex digits
---@return string? message
function export.post(log, opts)
    local headers, message = headers_of_environment()
    if not headers then
        return nil, message
    end
    local to = { url = export.endpoint(opts.otlp), headers = headers,
        transport = transport.shared(), redactor = redact.new({}, headers) }
    local all = spans.of(log, opts.content)
    local head, tail = all:envelope()
    local batch, bytes, problem = {}, 0, nil
    local function flush()
        if #batch > 0 and not problem then
            problem = send(to, head .. table.concat(batch, ",\n") .. tail)
        end
        batch, bytes = {}, 0
    end
    all:each(function(span)
        batch[#batch + 1] = json.encode(span)
        bytes = bytes + #batch[#batch]
        if #batch >= MAX_SPANS or bytes >= MAX_BYTES then
            flush()
        end
    end)
    flush()
    return not problem and all.trace_id or nil, problem or nil
end

-------------------------------------------------------------------------------
-- To a file

---Writes the spans of a log.
---@param out {write: fun(self, ...)} as of file.replace
---@param opts {content: boolean?}
function export.write(log, out, opts)
    local all = spans.of(log, opts.content)
    local head, tail = all:envelope()
    out:write(head)
    local before = ""
    all:each(function(span)
        out:write(before, quote.terminal_json(json.encode(span)))
        before = ",\n"
    end)
    out:write(tail)
end

return export
