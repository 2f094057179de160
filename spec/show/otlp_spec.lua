-- `ponder export --format otlp`: the spans of a run, and how they reach a collector.

local json = require "ponder.json"
local messages = require "ponder.show.messages"
local otlp = require "ponder.show.export.otlp"
local sample_log = require "sample_log"
local server = require "server"
local shell = require "shell"

local dir, path

setup(function()
    dir = shell.directory()
    path = dir.path .. "/run.db"
    sample_log.write(path)
end)
teardown(function() dir:__close() end)

local function plain(value)
    if value.arrayValue then
        local list = {}
        for i, item in ipairs(value.arrayValue.values) do
            list[i] = plain(item)
        end
        return list
    elseif value.intValue then
        assert.equal("string", type(value.intValue))
        return math.tointeger(tonumber(value.intValue))
    end
    return value.stringValue or value.doubleValue or value.boolValue
end

-- The spans, with `named` attributes, `parent` and `children`.
local function read(text)
    local all = assert(json.decode(text)).resourceSpans[1]
    local spans, by_id = all.scopeSpans[1].spans, {}
    for _, span in ipairs(spans) do
        assert.matches("^%x+$", span.spanId .. span.traceId)
        assert.same({ 16, 32 }, { #span.spanId, #span.traceId })
        assert.is_nil(by_id[span.spanId])
        by_id[span.spanId] = span
        span.children, span.named = {}, {}
        for _, attribute in ipairs(span.attributes) do
            assert.is_nil(span.named[attribute.key])
            span.named[attribute.key] = plain(attribute.value)
        end
        assert.matches("^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d$", span.startTimeUnixNano)
        assert.is_true(span.endTimeUnixNano >= span.startTimeUnixNano)
        if span.parentSpanId then
            span.parent = assert(by_id[span.parentSpanId], span.name)
            table.insert(span.parent.children, span)
        end
    end
    return spans, all
end

local function export(...)
    return shell.printed { "export", "--format", "otlp", ... }
end

local function of_call(spans, id)
    for _, span in ipairs(spans) do
        if span.named["ponder.call.id"] == id then
            return span
        end
    end
end

local function way(span)
    return span.parent and way(span.parent) .. " > " .. span.name or span.name
end

describe("the spans of a run", function()
    it("are nested like runs, searches and calls", function()
        local spans, all = read(export(path))
        assert.equal("https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",
            all.scopeSpans[1].schemaUrl)
        assert.equal("service.name", all.resource.attributes[1].key)
        assert.equal(1 + 3 + 10 + 3 + 2 + 40, #spans)
        local root = spans[1]
        assert.equal("invoke_workflow policy.lua", root.name)
        assert.same({ 1, { code = 1 }, "1760000000000000000", "1760000012500000000" }, { root.kind,
            root.status, root.startTimeUnixNano, root.endTimeUnixNano })
        assert.same({ "invoke_workflow", "policy.lua" }, { root.named["gen_ai.operation.name"],
            root.named["gen_ai.workflow.name"] })
        for id, expected in pairs {
            [1] = "invoke_workflow policy.lua > search beam > expand > chat gpt-4o-mini",
            [24] = "invoke_workflow policy.lua > search tot > expand > chat gpt-4o-mini",
            [33] = "invoke_workflow policy.lua > chat gpt-4o-mini",
            [34] = "invoke_workflow policy.lua > execute_tool lookup > chat mystery-1",
        } do
            assert.equal(expected, way(of_call(spans, id)))
        end
        local node = of_call(spans, 11).parent
        assert.same({ "7", 2, 2 }, { node.named["ponder.node.id"],
            node.named["ponder.node.depth"], #node.children })
    end)

    it("have the attributes that the conventions require of calls", function()
        local spans = read(export(path))
        local call = of_call(spans, 2)
        assert.equal(3, call.kind)
        assert.is_nil(call.status)
        assert.same({ ["gen_ai.operation.name"] = "chat", ["gen_ai.provider.name"] = "anthropic",
            ["gen_ai.request.model"] = "claude-haiku-4-5", ["gen_ai.request.max_tokens"] = 400,
            ["gen_ai.request.temperature"] = 0.7, ["gen_ai.response.id"] = "reply-2",
            ["gen_ai.response.model"] = "claude-haiku-4-5-2025",
            ["gen_ai.response.finish_reasons"] = { "stop" }, ["gen_ai.usage.input_tokens"] = 92,
            ["gen_ai.usage.output_tokens"] = 22, ["ponder.call.id"] = 2,
            ["ponder.call.origin"] = "live", ["ponder.call.purpose"] = "evaluate",
            ["ponder.call.attempts"] = 1, ["ponder.cost.usd"] = 0.000202 }, call.named)
        assert.equal(1, of_call(spans, 39).kind) -- it came from a cache, and went nowhere
    end)

    it("report failures by their codes only", function()
        local spans = read(export(path))
        for id, code in pairs { [36] = "RATE_LIMITED", [37] = "cancelled", [38] = "no_answer" } do
            local call = of_call(spans, id)
            assert.same({ code, { code = 2 } }, { call.named["error.type"], call.status })
        end
        local again = of_call(spans, 35)
        assert.is_nil(again.named["error.type"])
        assert.equal(2, #again.events)
        assert.equal("ponder.attempt_failed", again.events[1].name)
        local file = dir.path .. "/failed.db"
        sample_log.write(file, function(db)
            db:execute "UPDATE runs SET status = 'failed', error = 'the secret plan failed'"
        end)
        local text = export(file)
        assert.same({ "failed", { code = 2 } }, { read(text)[1].named["error.type"],
            read(text)[1].status })
        assert.is_nil(text:find("secret plan", 1, true))
        assert.truthy(export("--content", file):find("secret plan", 1, true))
    end)

    it("have prompts and replies only if asked to", function()
        local text = export(path)
        for _, part in ipairs { "terse", "Expand node", "Answer 1", "high temperature", "heat",
            "quota" } do
            assert.is_nil(text:find(part, 1, true), part)
        end
        local spans = read(export("--content", path))
        local call = of_call(spans, 2)
        assert.same({ { role = "user", parts = { { type = "text",
            content = "Score the children of node 1" } } } },
            json.decode(call.named["gen_ai.input.messages"]))
        assert.same({ { type = "text", content = "You are terse." } },
            json.decode(call.named["gen_ai.system_instructions"]))
        assert.same({ { role = "assistant", parts = { { type = "text", content = "Answer 2" } } } },
            json.decode(call.named["gen_ai.output.messages"]))
        assert.same({ "tool_call" }, of_call(spans, 33).named["gen_ai.response.finish_reasons"])
        local tool = of_call(spans, 34).parent
        assert.same({ '{"word":"heat"}', '["high temperature"]' }, {
            tool.named["gen_ai.tool.call.arguments"], tool.named["gen_ai.tool.call.result"] })
        assert.equal(sample_log.HOSTILE, json.decode(of_call(spans, 40).named[
            "gen_ai.input.messages"])[2].parts[1].content)
    end)

    it("are the same each time", function()
        assert.equal(export(path), export(path))
        local other = dir.path .. "/other.db"
        sample_log.write(other, function(db) db:execute "UPDATE runs SET uid = 'ff'" end)
        assert.are_not.equal(read(export(path))[1].traceId, read(export(other))[1].traceId)
    end)

    it("end at the last row of a killed run", function()
        local file = dir.path .. "/killed.db"
        sample_log.write(file, function(db)
            db:execute "UPDATE runs SET status = NULL, ended_at = NULL"
            db:execute "UPDATE searches SET ended_at = NULL WHERE id = 2"
            db:execute "DELETE FROM searches WHERE id = 3" -- its calls are the run's then
        end)
        local spans = read(export(file))
        assert.equal("killed", spans[1].named["error.type"])
        assert.equal(spans[1].endTimeUnixNano, of_call(spans, 21).parent.parent.endTimeUnixNano)
        assert.equal("invoke_workflow policy.lua > expand > chat qwen3:8b", way(of_call(spans, 25)))
    end)
end)

describe("messages of every provider", function()
    it("are converted to the form of the conventions", function()
        local input = messages.input { messages = {
            { role = "assistant", content = json.null, tool_calls = { { id = "a", type = "function",
                ["function"] = { name = "f", arguments = '{"x":1}' } } } },
            { role = "tool", tool_call_id = "a", content = "1" },
            { role = "user", content = { { type = "text", text = "see" }, { type = "image_url",
                image_url = { url = "http://x" } } } },
            { role = "assistant", content = { { type = "thinking", thinking = "hm" },
                { type = "tool_use", id = "b", name = "g", input = { y = 2 } } } },
            { role = "user", content = { { type = "tool_result", tool_use_id = "b",
                content = "two" } } },
            { role = "assistant", tool_calls = { { ["function"] = { name = "h", arguments =
                { z = 3 } } } } },
        } }
        local parts = {}
        for i, message in ipairs(input) do
            parts[i] = message.parts[1]
        end
        assert.same({ type = "tool_call", id = "a", name = "f", arguments = { x = 1 } }, parts[1])
        assert.same({ type = "tool_call_response", id = "a", response = "1" }, parts[2])
        assert.same({ type = "text", content = "see" }, parts[3])
        assert.equal("image_url", input[3].parts[2].type)
        assert.same({ type = "reasoning", content = "hm" }, parts[4])
        assert.same({ type = "tool_call", id = "b", name = "g", arguments = { y = 2 } },
            input[4].parts[2])
        assert.same({ type = "tool_call_response", id = "b", response = "two" }, parts[5])
        assert.same({ type = "tool_call", name = "h", arguments = { z = 3 } }, parts[6])
    end)

    it("may have any form", function()
        for _, request in ipairs { json.null, "x", 1, {}, { messages = "x" }, { messages = { 1, "x",
            { role = 1 }, { content = { 1, {} } } } }, { system = { { type = "text" }, 3 } } } do
            messages.input(request)
        end
        for _, reply in ipairs { json.null, "x", {}, { samples = {} }, { samples = { {} } },
            { samples = { { text = 1, tool_calls = { 1, {} } } } } } do
            messages.output(reply)
        end
    end)
end)

describe("ponder export --otlp", function()
    local s
    setup(function() s = server.start() end)
    teardown(function() s:stop() end)
    before_each(function() s:reset() end)

    local function post(url, env)
        env = env or {}
        env.no_proxy = "*"
        return shell.ponder({ "export", "--otlp", url, path }, { env = env })
    end

    it("sends the spans, and prints the trace id", function()
        local r = post(s.url, { OTEL_EXPORTER_OTLP_HEADERS = "x-team=a%20b, authorization=Bearer "
            .. "k-1234567890" })
        assert.same({ 0, "" }, { r.status, r.err })
        local seen = s:request()
        assert.equal("POST /v1/traces", seen:match("^%S+ %S+"))
        for _, header in ipairs { "content-type: application/json", "x-team: a b",
            "authorization: Bearer k-1234567890" } do
            assert.truthy(seen:lower():find(header:lower(), 1, true), seen:sub(1, 400))
        end
        local spans = read(seen:match("(%b{})%s*$"))
        assert.equal(59, #spans)
        assert.equal(spans[1].traceId .. "\n", r.out)
    end)

    it("keeps the path of a URL", function()
        assert.equal(0, post(s.url .. "/api/otlp").status)
        assert.equal("POST /api/otlp", s:request():match("^%S+ %S+"))
        assert.same({ "http://x/v1/traces", "http://x/v1/traces", "http://x:1/v1/traces?a=b",
            "http://x/y", "x" }, { otlp.endpoint "http://x", otlp.endpoint "http://x/",
            otlp.endpoint "http://x:1?a=b", otlp.endpoint "http://x/y", otlp.endpoint "x" })
    end)

    it("reports errors, without the headers", function()
        local env = { OTEL_EXPORTER_OTLP_HEADERS = "authorization=Bearer k-1234567890" }
        s:next("status=401&body=" .. server.encode "bad key k-1234567890 \27[31m")
        local r = post(s.url, env)
        assert.same({ 1, "", ("ponder export: %s/v1/traces: status 401: bad key [redacted] [31m\n")
            :format(s.url) }, { r.status, r.out, r.err })
        s:next("body=" .. server.encode
            '{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}')
        assert.matches("3 spans were rejected: no\n$", post(s.url).err)
        r = post("http://me:hidden@127.0.0.1:1", env)
        assert.equal(1, r.status)
        assert.matches("^ponder export: http://127.0.0.1:1/v1/traces: .*\n$", r.err)
        assert.equal(1, post("ftp://x").status)
        assert.matches("OTEL_EXPORTER_OTLP_HEADERS: expected name=value",
            post(s.url, { OTEL_EXPORTER_OTLP_HEADERS = "nonsense" }).err)
    end)

    it("sends many spans in parts", function()
        local file = dir.path .. "/many.db"
        sample_log.fill(file, 1500)
        local r = shell.ponder({ "export", "--otlp", s.url, file }, { env = { no_proxy = "*" } })
        assert.equal(0, r.status, r.err)
        assert.is_true(s:counters().requests > 2)
    end)
end)
