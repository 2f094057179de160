-- Each provider's format: the cases of spec/fixtures/providers, through the whole client.

local json = require "ponder.json"
local fake = require "model_fake"
local steps = require "steps"
local stream = require "ponder.model.stream"

-- Whether `got` has everything in `wanted`; else where not.
local function differs(wanted, got, path)
    if type(wanted) ~= "table" then
        if wanted == got then return nil end
        return ("%s is %s, not %s"):format(path, tostring(got), tostring(wanted))
    end
    if type(got) ~= "table" then return ("%s is %s"):format(path, tostring(got)) end
    for key, value in pairs(wanted) do
        local difference = differs(value, got[key], path .. "." .. tostring(key))
        if difference then return difference end
    end
end

local function answer_of(case)
    if case.stream == true then return { stream = case.reply, status = case.status } end
    return { body = case.reply, status = case.status }
end

local function run(case)
    local client, transport = fake.client { answer_of(case) }
    local deltas, results = {}, nil
    local call = {}
    for option, value in pairs(case.call) do call[option] = value end
    if case.stream then
        function call.on_delta(text, kind, sample)
            deltas[#deltas + 1] = kind .. ":" .. text .. ((call.n or 1) > 1 and ":" .. sample or "")
        end
    end
    fake.run(function()
        results = table.pack(client.open(case.model, case.opts):chat(call))
    end)
    return results, deltas, transport.sent[1]
end

local function check_sent(case, sent)
    if case.url then assert.equal(case.url, sent.url) end
    if case.request then assert.equal(case.request, sent.body) end
    for header, value in pairs(case.headers or {}) do assert.equal(value, sent.headers[header]) end
    assert.equal(sent.body, json.encode(json.decode(sent.body))) -- sorted, exact
end

for _, provider in ipairs { "openai", "anthropic", "ollama" } do
    describe(provider .. ":", function()
        for _, case in ipairs(dofile("spec/fixtures/providers/" .. provider .. ".lua")) do
            it(case.name, function()
                local results, deltas, sent = run(case)
                local reply, message, code, partial = table.unpack(results, 1, results.n)
                check_sent(case, sent)
                if case.code then
                    assert.is_nil(reply)
                    assert.equal(case.code, code)
                    assert.truthy(message:find(case.message, 1, true), message)
                    assert.truthy(message:find(case.model, 1, true), message)
                    assert.is_nil(differs(case.partial or {}, partial or {}, "partial"))
                else
                    assert.is_nil(message)
                    assert.is_nil(differs(case.expect or {}, reply, "reply"))
                    for _, field in ipairs(case.absent or {}) do assert.is_nil(reply[field]) end
                end
                if case.deltas then assert.same(case.deltas, deltas) end
            end)
        end
    end)
end

it("a reply of any shape is read, or is a failure with a code", function()
    local junk = { json.null, true, false, 0, -1, 1.5, 1e300, math.maxinteger, "", "text", {},
        json.array(), { 1, 2, "x" }, { a = { b = json.null } }, { { {} } }, "\xff\xfe" }
    local function change(value)
        if math.random() < 0.12 then return junk[math.random(#junk)] end
        for key, inner in pairs(type(value) == "table" and value or {}) do
            value[key] = change(inner)
        end
        return value
    end
    local function change_text(text)
        local value = json.decode(text, { finite = true })
        return value and json.encode(change(value))
    end
    for _, provider in ipairs { "openai", "anthropic", "ollama" } do
        for _, case in ipairs(dofile("spec/fixtures/providers/" .. provider .. ".lua")) do
            local reply = case.reply
            for seed = 1, reply and 20 or 0 do
                math.randomseed(seed)
                case.reply = reply:gsub("%f[^%s%z]%b{}", change_text)
                local results = run(case)
                local is_read = results[1] and results[1].text or results[3]
                assert.equal("string", type(is_read), case.reply)
            end
        end
    end
end)

describe("tool calls in a stream", function()
    local function piece(i, id)
        return { index = i, id = id, ["function"] = { name = "f", arguments = "{}" } }
    end

    local function ids(sample)
        local list = {}
        for i, call in ipairs(stream.merged_calls(sample.calls)) do list[i] = call.id end
        return table.concat(list, " ")
    end

    it("are ordered by their numbers, equal numbers by arrival", function()
        local sample = {}
        for _, one in ipairs { { 3, "c" }, { 1, "a" }, { 3, "d" }, { 2, "b" }, { 3, "c" } } do
            assert.is_nil(stream.merge_call(sample, piece(one[1], one[2])))
        end
        -- Of the last:
        assert.is_nil(stream.merge_call(sample, { ["function"] = { arguments = " " } }))
        assert.equal("a b c d", ids(sample))
        assert.equal("{}{}", stream.merged_calls(sample.calls)[3].arguments_json)
        assert.equal("{} ", stream.merged_calls(sample.calls)[4].arguments_json)
    end)

    it("cost the same each, however they are numbered", function()
        local ways = {
            down = function(i, n) return piece(n - i, "a" .. i) end,
            same = function(i) return piece(0, "a" .. i) end,
            none = function(i) return piece(nil, "a" .. i) end,
            pieces = function(i) return piece(i % 100, nil) end,
        }
        for name, way in pairs(ways) do
            assert.is_true(steps.is_linear(function(n)
                local sample = {}
                for i = 1, n do stream.merge_call(sample, way(i, n)) end
            end, 1000), name)
        end
    end)

    it("are limited in number", function()
        local lines = {}
        for i = 1, (1 << 16) + 1 do
            lines[i] = ('data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"a"}]}}]}\n\n')
                :format(i)
        end
        local client = fake.client { { stream = table.concat(lines) } }
        fake.run(function()
            local reply, why, code = client.open("openai:gpt-4o", { max_retries = 0 }):chat {
                messages = { { role = "user", content = "?" } }, on_delta = function() end }
            assert.same({ nil, "BAD_REPLY" }, { reply, code })
            assert.matches("the reply has more than 65536 tool calls", why, 1, true)
        end)
    end)
end)
