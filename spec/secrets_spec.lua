-- Secrets that a script, a command line or a caller holds: none reaches the log or the output.

local help = require "log_help"
local literals = require "ponder.redact.literals"
local redact = require "ponder.redact"

-- The secrets found, and the options with their places, by text.
local function find(text)
    local found, options = literals.find(text)
    local shown = {}
    for i, option in ipairs(options) do
        shown[i] = text:sub(option.first, option.last)
    end
    table.sort(found)
    return table.concat(found, " "), table.concat(shown, " ")
end

describe("ponder.redact.literals", function()
    it("finds options and headers by their names, even short ones", function()
        for text, expected in pairs {
            ['open("m", { api_key = "k1" })'] = "k1",
            ["opts.api_key = os.getenv 'HOME' or [[k2]]"] = "k2",
            ["opts.api_key = os.getenv('HOME') or [[k2]]"] = "k2",
            ['{ ["api-key"] = "k3", password = \'k4\' }'] = "k3 k4",
            ['headers = { ["x-team"] = "blue", accept = "a/b", [ "authorization" ] = "Bearer tt" }']
                = "blue tt",
            ['o.headers["x-team"] = "blue" o.other["x-team"] = "red"'] = "blue",
            ['headers = { a = "1", { b = "2" } } other = { c = "3" }'] = "1 2",
            ['api_key = key("name")'] = "",
            ['{ key = "name", token = "(", sort_key = "a" }'] = "",
            ["-- api_key = 'k'\n--[[ api_key = 'k' ]] --[==[ api_key = 'k' ]==]"] = "",
            ['s = "api_key = \\"k\\"" t = [[ api_key = "k" ]]'] = "",
            ["api_key = 'unterminated"] = "unterminated", ["api_key = [[open"] = "open",
            ["x = 'a\\"] = "", ["--[["] = "",
        } do
            local _, options = find(text)
            assert.equal(expected, options, text)
        end
    end)

    it("finds secrets of variables, URLs and of the form of a key", function()
        for text, expected in pairs {
            ['local KEY = "hunter2" local client_secret = "abc" local k = "name"'] = "abc hunter2",
            ['local k, j = "a" local l = "b" open { api_key = l, x = k }'] = "b",
            ['url = "https://u:p@h/x?sig=A%2F1&api-version=2024-10#frag?y=z"'] = "A%2F1 p u:p",
            ["-- https://h/?code=abcd"] = "", ["x = base .. '?sig=abc&page=2&x-key=d'"] = "abc d",
            ["x = 'see https://h/a?one=1&two=2 and https://h?three=3'"] = "1 2 3",
            ["f 'sk-proj-0123456789abcdef'"] = "sk-proj-0123456789abcdef",
            ["-- ghp_0123456789abcdefABCD"] = "ghp_0123456789abcdefABCD",
            ["x = 'f81d4fae7dec11d0a76500a0c91e6bf6'"] = "f81d4fae7dec11d0a76500a0c91e6bf6",
            ["open 'claude-haiku-4-5-20251001' open 'gpt-4o-mini-2024-07-18'"] = "",
            ["require 'ponder.model.a_long_name_of_a_module' local skeletons = 'sk-'"] = "",
        } do
            assert.equal(expected, (find(text)), text)
        end
    end)

    it("takes time linear in the text, whatever it is", function()
        for _, piece in ipairs { "[=[ ", "'", "a", "http://", "a.-+", "headers={", "api_key=", "[",
            "--[", "?a=b&" } do
            literals.find(piece:rep(20000))
        end
    end)
end)

describe("a redacted script", function()
    it("is Lua with a mark for each secret", function()
        local kept = redact.script [[
            local m = open("m", { api_key = "short", headers = { ["x-team"] = "blue" },
                base_url = "https://h/v1?sig=S1gnature%2F&api-version=1" })
            print "S1gnature%2F, short, blue"]]
        assert.equal([[
            local m = open("m", { api_key = "[redacted]", headers = { ["x-team"] = "[redacted]" },
                base_url = "https://h/v1?sig=[redacted]&api-version=1" })
            print "[redacted], short, blue"]], kept)
        assert.is_function(load(kept))
    end)

    describe("a log", function()
        local w

        setup(function() w = help.open() end)
        teardown(function() w:close() end)

        local function check(secrets, text)
            for _, secret in ipairs(secrets) do
                assert.is_nil(text:find(secret, 1, true), secret)
            end
        end

        local SECRETS = { "literal-of-later-1", "S1gnature", "blue-team-2", "plain text 3",
            "hunter2-and-more" }
        local LATER = [[
            assert(ask "one")
            local HERE = "hunter2-and-more"
            if ... == "kill" then
                io.popen("kill -9 " .. io.open("/proc/self/stat"):read "n"):close()
                task.sleep(5)
            end
            local model = require "ponder.model"
            local m2 = model.open("openai:m", { api_key = "literal-of-later-1",
                headers = { ["x-team"] = "blue-team-2", ["x-other"] = "plain text 3" } })
            local url = os.getenv "OPENAI_BASE_URL" .. "?sig=S1gnature"
            local m3 = model.open("openai:m", { base_url = url, api_key = HERE })
            for _, other in ipairs { m2, m3 } do
                assert(other:chat { messages = { { role = "user", content = "two" } } })
            end
            say(HERE, m3.target.base_url)
        ]]

        it("has no key of a model that is opened later, even after a kill", function()
            w:begin(LATER)
            w:run "kill"
            assert.truthy(w:bytes():find("local HERE = \"[redacted]\"", 1, true))
            check(SECRETS, w:bytes())
        end)

        it("has no key when the run has ended, and can be replayed", function()
            w:begin(LATER)
            local first = w:run()
            assert.same({ 0, "" }, { first.status, first.err })
            check(SECRETS, w:bytes())
            local r = w:replay()
            assert.same({ 0, "" }, { r.status, r.err })
        end)

        it("has no key of -e or of flags", function()
            w:begin ""
            local code = help.PRELUDE .. "require('ponder.model').open('openai:m', { "
                .. "api_key = 'literal-of-e-1' }) ask 'one'"
            assert.equal(0, w:ponder({ "run", "--log", w.log, "-e", code }).status)
            check({ "literal-of-e-1" }, w:bytes())
            w:begin ""
            local r = w:ponder { "cot", "--log", w.log, "--headers",
                '{ "x-team": "blue-team-2", "accept": "text/event-stream" }', "--base-url",
                w:environment().OPENAI_BASE_URL .. "?sig=S1gnature&api-version=1", "Why?" }
            assert.equal(0, r.status, r.err)
            check(SECRETS, w:bytes())
            assert.truthy(w:bytes():find("text/event-stream", 1, true))
            assert.truthy(w:bytes():find("api-version=1", 1, true))
        end)
    end)
end)

describe("the printed form of a request", function()
    it("has no value of a header or query field, unless it is harmless", function()
        local redactor = redact.new({}, { ["x-team"] = "blue", accept = "text/plain" })
        assert.same({ ["x-team"] = "[redacted]", accept = "text/plain" },
            redactor:headers { ["x-team"] = "blue", accept = "text/plain" })
        assert.equal("[redacted] and text/plain", redactor:text "blue and text/plain")
        assert.equal("https://h/?sig=[redacted]&api-version=1&q=[redacted]#f",
            redact.address "https://u:p@h/?sig=abc&api-version=1&q=x#f")
    end)
end)
