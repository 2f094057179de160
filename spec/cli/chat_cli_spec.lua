-- ponder chat: continued conversations, attachments, schemas, tools.

local base64 = require "ponder.base.base64"
local json = require "ponder.json"
local server = require "server"
local shell = require "shell"

-- Replies with the question and the number of messages.
local MODEL = [[
return function(request)
    local last = request.messages[#request.messages]
    return ("%s %d %s"):format(request.system or "-", #request.messages, last.content)
end]]

local PNG = "\x89PNG\r\n\x1A\n\0\0\xFF"

local dir

local function ponder(arguments, env, input)
    env = env or {}
    env.XDG_STATE_HOME = env.XDG_STATE_HOME or dir.path .. "/state"
    env.XDG_CONFIG_HOME = "/nonexistent"
    env.PONDER_MODEL = env.PONDER_MODEL or "script:m.lua"
    return shell.ponder(arguments, { cwd = dir.path, env = env, input = input })
end

before_each(function() dir = shell.directory { ["m.lua"] = MODEL } end)
after_each(function() dir:__close() end)

describe("ponder chat -c", function()
    it("continues the newest stored conversation", function()
        assert.equal("be kind 1 one\n", ponder({ "chat", "--system", "be kind", "one" }).out)
        assert.equal(0, ponder({ "-e", "return 1" }).status)
        local r = ponder { "chat", "-c", "two" }
        assert.equal("be kind 3 two\n", r.out)
        assert.equal("be kind 3 two\n", ponder({ "replay" }).out)
        assert.equal("short 5 three\n",
            ponder({ "chat", "--continue", "--system", "short", "three" }).out)
        assert.equal("- 1 four\n", ponder({ "chat", "--no-log", "four" }).out)
        assert.equal("short 7 five\n", ponder({ "chat", "-c", "five" }).out)
    end)

    it("replays with the conversation as it was", function()
        ponder { "chat", "one" }
        ponder { "chat", "-c", "--log", "two.db", "two" }
        ponder { "chat", "new" }
        assert.equal("- 3 two\n", ponder({ "replay", "two.db" }).out)
    end)

    it("asks the model of the conversation, where it was, unless told otherwise", function()
        dir:write("other.lua", "return function() return 'other' end")
        ponder { "chat", "--model", "script:other.lua", "one" }
        for _, default in ipairs { "script:m.lua", "" } do
            assert.equal("other\n", ponder({ "chat", "-c", "two" }, { PONDER_MODEL = default }).out)
        end
        assert.equal("- 7 three\n",
            ponder({ "chat", "-c", "--model", "script:m.lua", "three" }).out)
        assert.equal("- 9 four\n", ponder({ "chat", "-c", "four" }, { PONDER_MODEL = "" }).out)

        local s <close> = server.start()
        local url = s.url .. "/s/text=local&deltas=1/v1"
        local function ask(arguments, named)
            return ponder({ "chat", table.unpack(arguments) }, { PONDER_MODEL = "script:m.lua",
                OPENAI_BASE_URL = named or "", no_proxy = "*" })
        end
        assert.equal("local\n", ask({ "--model", "openai:x", "--base-url", url, "hi" }).out)
        for status, named in pairs { "", "http://127.0.0.1:1" } do
            local r = ask({ "-c", "again" }, named)
            assert.equal(status, r.status)
            assert.truthy(r.err:find("conversation was with openai:x at " .. s.url, 1, true), r.err)
        end
        assert.equal("local\n", ask({ "-c", "again" }, url).out)
        assert.equal("local\n", ask({ "-c", "--base-url", url, "again" }).out)
        assert.equal("- 7 end\n", ask({ "-c", "--model", "script:m.lua", "end" }).out)
    end)

    it("says so if there is none", function()
        local r = ponder { "chat", "-c", "two" }
        assert.equal(2, r.status)
        assert.matches("%-c: no conversation is logged", r.err)
    end)
end)

describe("ponder chat", function()
    it("puts standard input before the prompt", function()
        for _, case in ipairs {
            { { "sum", "up" }, " a\nb\n\n", "- 1  a\nb\n\nsum up\n" },
            { {}, "a\n", "- 1 a\n" }, { { "-" }, "a\n", "- 1 a\n" },
            { { "sum" }, " \n", "- 1 sum\n" },
        } do
            local words, input, want = table.unpack(case)
            assert.equal(want, ponder({ "chat", table.unpack(words) }, nil, input).out)
            assert.equal(want, ponder({ "replay" }, nil, "not this").out)
        end
        for input, message in pairs { [""] = "expected a prompt", ["\xFF"] = "not UTF%-8" } do
            local r = ponder({ "chat" }, nil, input)
            assert.equal(2, r.status)
            assert.matches(message, r.err)
        end
        assert.equal("- 1 hi\n", shell.run(("cd %s; PONDER_MODEL=script:m.lua %s chat hi <&- >$OUT "
            .. "2>$ERR"):format(dir.path, shell.executable)).out) -- closed, not broken
        assert.matches("standard input: Is a directory",
            shell.run(shell.executable .. " chat hi <. 2>$ERR").err)
    end)

    it("pays nothing for an empty prompt, unless a file is attached", function()
        local r = ponder { "chat", " " }
        assert.equal(2, r.status)
        assert.matches("^ponder chat: the prompt is empty\n", r.err)
        dir:write("a.txt", "some text")
        assert.equal(0, ponder({ "chat", "--attach", "a.txt", "" }).status)
    end)
end)

describe("ponder chat --attach", function()
    it("puts texts before the prompt, in tags that they cannot close", function()
        dir:write("a.txt", "alpha </file> omega")
        local r = ponder { "chat", "--attach", "a.txt", "--attach", "m.lua", "What?" }
        assert.matches("^%- 1 <file%-1>\na.txt\n\nalpha </file> omega\n</file%-1>\n\n<file>\nm.lua",
            r.out)
        assert.matches("\n\nWhat%?\n$", r.out)
    end)

    it("sends images in each provider's format", function()
        local s <close> = server.start()
        dir:write("a.png", PNG)
        local data = base64.encode(PNG)
        local function sent(model, steer)
            local r = ponder({ "chat", "--attach", "a.png", "What is it?" }, {
                PONDER_MODEL = model, OPENAI_API_KEY = "sk-0123456789abcdefghij",
                ANTHROPIC_API_KEY = "sk-0123456789abcdefghij", no_proxy = "*",
                OPENAI_BASE_URL = s.url .. steer .. "/v1", ANTHROPIC_BASE_URL = s.url .. steer,
                OLLAMA_HOST = s.url .. steer })
            assert.equal("", r.err:gsub("[^\n]*cut short\n", ""))
            local messages = json.decode(s:request():match "\n({.*})$").messages
            return messages[#messages]
        end
        assert.same({ role = "user", content = {
            { type = "image_url", image_url = { url = "data:image/png;base64," .. data } },
            { type = "text", text = "What is it?" } } }, sent("openai:m", "/s/text=ok&deltas=1"))
        assert.same({ role = "user", content = {
            { type = "image", source = { type = "base64", media_type = "image/png",
                data = data } },
            { type = "text", text = "What is it?" } } },
            sent("anthropic:m", "/s/text=ok&deltas=1"))
        assert.same({ role = "user", content = "What is it?", images = { data } },
            sent("ollama:m", "/s/text=ok&deltas=1"))
    end)

    it("refuses files that cannot be sent", function()
        dir:write("a.png", PNG)
        dir:write("a.bin", "\xFF\0")
        for path, message in pairs { ["a.png"] = "script:m.lua does not take images",
            ["a.bin"] = "a.bin: neither an image %(PNG, JPEG, GIF, WebP%) nor UTF%-8 text",
            ["none"] = "none: No such file",
            ["/dev/zero"] = "/dev/zero: it exceeds 20971520 bytes" } do
            local r = ponder { "chat", "--attach", path, "x" }
            assert.equal(2, r.status)
            assert.matches("ponder chat: %-%-attach: .*" .. message, r.err)
        end
    end)
end)

describe("ponder chat --schema", function()
    local SCHEMA = '{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}'

    it("prints the JSON alone", function()
        dir:write("s.json", SCHEMA)
        dir:write("m.lua", 'return function() return "```json\\n{\\"n\\": 7}\\n```" end')
        local r = ponder { "chat", "--schema", "s.json", "x" }
        assert.same({ 0, '{"n":7}\n' }, { r.status, r.out })
        assert.equal(7, json.decode(ponder({ "chat", "--json", "--schema", "s.json",
            "x" }).out).json.n)
    end)

    it("asks once more, and then fails", function()
        dir:write("s.json", SCHEMA)
        dir:write("m.lua", [[local n = 0
            return function() n = n + 1 return n == 2 and '{"n": 2}' or '{"n": "x"}' end]])
        assert.equal('{"n":2}\n', ponder({ "chat", "--schema", "s.json", "x" }).out)
        dir:write("m.lua", "return function() return 'no' end")
        local r = ponder { "chat", "--schema", "s.json", "x" }
        assert.same({ 1, "" }, { r.status, r.out })
        assert.matches('the reply is not JSON: [^\n]*; the reply was "no" %[BAD_REPLY%]\n$', r.err)
    end)

    it("reports errors in the file", function()
        dir:write("s.json", "{")
        assert.matches("%-%-schema: s.json: not a JSON schema: [^\n]* %(line 1, column 2%)",
            ponder({ "chat", "--schema", "s.json", "x" }).err)
        dir:write("s.json", '{"properties": {"n": {"type": "nmber"}}}')
        assert.matches("a JSON schema: properties.n: type must be ", ponder({ "chat", "--schema",
            "s.json", "x" }).err)
        dir:write("list.json", "[1]")
        assert.equal(2, ponder({ "chat", "--schema", "list.json", "x" }).status)
        assert.equal(2, ponder({ "chat", "--schema", "none.json", "x" }).status)
    end)
end)

describe("ponder chat --tools", function()
    local TOOLS = [[return { { name = "now", run = function(a) return "noon " .. a.n end,
        parameters = { type = "object", properties = { n = { type = "integer" } } } } }]]
    local CALLS = [[local n = 0
        return function(request)
            n = n + 1
            local last = request.messages[#request.messages]
            if request.options.tool_choice == "none" then return "enough " .. last.content end
            return { text = "let me see", usage = { input_tokens = 1, output_tokens = 1 },
                tool_calls = { { name = "now", arguments = { n = n } } } }
        end]]

    it("runs tools until the model answers or reaches the limit of turns", function()
        dir:write("tools.lua", TOOLS)
        dir:write("m.lua", CALLS)
        local r = ponder { "chat", "--tools", "tools.lua", "--max-tool-round-trips", "2", "x" }
        assert.equal("let me see\nlet me see\nenough noon 2\n", r.out)
        assert.equal('ponder chat: now {"n":1}\nponder chat: now {"n":2}\n', r.err)
        r = ponder { "chat", "--json", "--tool", "tools.lua", "--max-tool-round-trips", "3", "x" }
        assert.equal(3, json.decode(r.out).usage.input_tokens)
        -- the tools' results are part of the conversation
        dir:write("m.lua", MODEL)
        assert.matches("^%- 9 and", ponder({ "chat", "-c", "and?" }).out)
    end)

    it("reports errors in the file", function()
        dir:write("tools.lua", "return 1")
        local r = ponder { "chat", "--tools", "tools.lua", "x" }
        assert.equal(1, r.status)
        assert.matches("%-%-tools: tools.lua: must return a list of tools", r.err)
        for text, problem in pairs {
            ["return { name = 'f' }"] = "tools must be a list of tools",
            ["return { { name = 'f' } }"] = "tools%[1%]: opts.run must be a function %(got nil%)",
        } do
            dir:write("tools.lua", text)
            r = ponder { "chat", "--tools", "tools.lua", "x" }
            assert.equal(1, r.status)
            assert.matches("^ponder chat: %-%-tools: tools.lua: " .. problem .. "\n$", r.err)
        end
        r = ponder { "chat", "--tools", "none.lua", "x" }
        assert.same({ 2, "ponder chat: --tools: none.lua: No such file or directory\n" },
            { r.status, r.err })
    end)
end)
