-- Secrets that ponder knows: none reaches the log, a cache or the output, and no reply is changed.

local help = require "log_help"
local redact = require "ponder.base.redact"
local server = require "server"

describe("a script", function()
    local w

    setup(function() w = help.open("mix=0&text=" .. server.encode(
        "question_id of " .. help.KEY .. " is bearer-blue-team-2")) end)
    teardown(function() w:close() end)

    local NAMES = [[
        local SORT_KEY, secret = "question_id", "is"
        local page = { headers = { "question_id" }, url = "https://h/?sig=question_id" }
        local function show(text) say((text:gsub("%%s+", " "))) end
        show(ask "one")
        show(log.record("page", {}, function() return "question_id %s" end))
    ]]

    it("receives what the model and log.record said, with and without a log", function()
        local expected = ("question_id of %s is bearer-blue-team-2\nquestion_id %s\n"):format(
            help.KEY, help.KEY)
        w:begin(NAMES:format(help.KEY))
        local r = w:run()
        assert.same({ 0, expected }, { r.status, r.out }, r.err)
        assert.is_nil(w:bytes():find(help.KEY, 1, true))
        assert.truthy(w:bytes():find("question_id of [redacted] is bearer-blue-team-2", 1, true))
        r = w:ponder { "run", "--no-log", w.script }
        assert.same({ 0, expected }, { r.status, r.out }, r.err)
        local again = w:replay()
        assert.same({ 0, (expected:gsub("sk%-%w+", "[redacted]")) }, { again.status, again.out })
    end)

    it("receives the same from a cache: what has a key in it is not kept", function()
        local path = w.dir.path .. "/c.db"
        for _ = 1, 2 do
            w:begin(NAMES:format "x")
            local r = w:ponder { "run", "--no-log", "--cache", path, w.script }
            assert.truthy(r.out:find(help.KEY, 1, true), r.err)
        end
        assert.is_nil(w:bytes(path):find(help.KEY, 1, true))
    end)

    it("gets what a recorded function raised as it was raised, again in a replay", function()
        w:begin [[
            ask "one"
            for _, raised in ipairs { { code = 7, list = { "a" } }, 42, "a text" } do
                local ok, e = pcall(log.record, "x", {}, function() error(raised, 0) end)
                say(ok, math.type(e) or type(e) == "table" and e.code .. e.list[1] or e)
            end]]
        local first, again = w:run(), w:replay()
        assert.equal("false\t7a\nfalse\tinteger\nfalse\ta text\n", first.out, first.err)
        assert.same({ first.out, 0 }, { again.out, again.status }, again.err)
    end)
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

    local SECRETS = { "literal-of-later-1", "S1gnature%2F", "blue-team-2", "plain text 3",
        "hunter2-and-more" }
    local LATER = [[
        assert(ask "one")
        local HERE = "hunter2-and-more"
        local model = require "ponder.model"
        local m2 = model.open("openai:m", { api_key = "literal-of-later-1",
            headers = { ["x-team"] = "blue-team-2", ["x-other"] = "plain text 3" } })
        local url = os.getenv "OPENAI_BASE_URL" .. "?sig=S1gnature%2F"
        local m3 = model.open("openai:m", { base_url = url, api_key = HERE })
        for _, other in ipairs { m2, m3 } do
            assert(other:chat { messages = { { role = "user", content = "two" } } })
        end
        if ... == "kill" then
            io.popen("kill -9 " .. io.open("/proc/self/stat"):read "n"):close()
            task.sleep(5)
        end
        say(HERE, m3.target.base_url)
    ]]

    it("masks the script's literals once a model is called with them, even after a kill", function()
        w:begin(LATER)
        w:run "kill"
        local text = w:row "SELECT text FROM files"
        assert.truthy(text:find("local HERE = \"[redacted]\"", 1, true))
        check(SECRETS, text)
    end)

    it("has no key when the run has ended, and can be replayed", function()
        w:begin(LATER)
        local first = w:run()
        assert.same({ 0, "" }, { first.status, first.err })
        check(SECRETS, w:bytes())
        local r = w:replay()
        assert.same({ 0, "" }, { r.status, r.err })
    end)

    it("has no key of -e or of config.lua", function()
        w:begin ""
        local code = help.PRELUDE .. "ask 'zero' require('ponder.model').open('openai:m', { "
            .. "api_key = 'literal-of-e-1' }) ask 'one'"
        assert.equal(0, w:ponder({ "run", "--log", w.log, "-e", code }).status)
        check({ "literal-of-e-1" }, w:bytes())
        w.dir:write("ponder/config.lua",
            'return { providers = { anthropic = { api_key = "of-config-1" } } }')
        w:begin 'say(ask "of-config-1")'
        local r = w:sh("XDG_CONFIG_HOME=$PWD $PONDER run --log run.db script.lua; rm -r ponder")
        assert.equal(0, r.status, r.err)
        check({ "of-config-1" }, w:bytes())
    end)

    it("has no key with characters that JSON escapes", function()
        w:begin [[
            local key = 'quo"ted' .. string.char(92) .. "/key-7"
            require("ponder.model").open("openai:m", { api_key = key })
            require("ponder.log").record("x", {}, function() return key end)
            say(ask(key))]]
        local r = w:run()
        assert.equal(0, r.status, r.err)
        check({ [[quo\"ted\\/key-7]], [[quo\"ted\\\/key-7]] }, w:bytes())
    end)
end)

describe("the keys of a key file", function()
    it("are known", function()
        assert(require("ponder.serve.http.guard").read_keys "key-of-a-client-1 anna\n")
        assert.equal("it is [redacted]", redact.keep "it is key-of-a-client-1")
    end)
end)

describe("ponder.base.redact", function()
    it("removes keys in all their forms from files, but not placeholders and words", function()
        redact.new { 'a"b/c-12345', "9key-abcdef", "abcd1234", "abcdefghijklmnop" }
        assert.equal(("[redacted] "):rep(5) .. "[redacted]9",
            redact.keep([[a"b/c-12345 a\"b/c-12345 a\"b\/c-12345 ]]
                .. "9key-abcdef abcdefghijklmnop abcd12349"))
        assert.equal("[redacted] 9key-abcde", redact.keep "9key-abcdef 9key-abcde")
        for _, key in ipairs { "key-5", "key-56789", "key-56789-and-more" } do
            redact.new { key }
        end
        assert.equal("key-5 [redacted]x [redacted]!", redact.keep
            "key-5 key-56789x key-56789-and-more!")
        assert.equal("[redacted] [redacted]", redact.new { "long", "longer-one" }:text
            "longer-one long")
        local kept = "lm-studio not-needed no-key-needed sk-no-key-required abcde12 abcdefghijklmno"
        for word in kept:gmatch "%S+" do
            redact.new { word }
        end
        assert.equal(kept, redact.keep(kept))
    end)

    it("takes what is secret of a header or URL, if it has four characters", function()
        local r = redact.new({ "abc", "Bearer tok-12345", "two words here", 7 }, {
            authorization = "Basic  xyz1", accept = "text/x" })
        assert.equal("abc Bearer [redacted] Basic [redacted] text/x [redacted] words http://h/",
            r:text "abc Bearer tok-12345 Basic xyz1 text/x two words here words http://u:p@h/")
        assert.same({ accept = "7", cookie = "[redacted]", host = "[redacted]" },
            r:headers { accept = 7, cookie = "x", host = "xyz1" })
        for url, shown in pairs { ["u:p@h:1/x?sig=1#f"] = "h:1/x?sig=[redacted]#f",
            ["https://u@h?v=1&a=@"] = "https://h?v=1&a=[redacted]", ["h/x@y"] = "h/x@y" } do
            assert.equal(shown, redact.address(url))
        end
        assert.equal("***@h ", redact.address("u@h ", "***"))
        assert.equal("ftp://***@b a://c", redact.without_userinfo("ftp://a@b a://c", "***"))
    end)

    it("knows each form of a key once", function()
        for key, forms in pairs { ["key-of-count-1"] = 1, ["key/of-count-2"] = 2,
            ['key"/of-count-3'] = 3, count = 0 } do
            local before = redact.keys
            for _ = 1, 2 do
                redact.new { key }
                assert.equal(before + forms, redact.keys, key)
            end
        end
    end)

    it("knows which names mean secrets, and which headers and fields are harmless", function()
        for _, name in ipairs { "Authorization", "X_API_KEY", "token", "set-cookie", "SECRETS",
            "db_password" } do
            assert.is_true(redact.is_secret_name(name), name)
        end
        assert.is_false(redact.is_secret_name "HOME")
        local shown = {}
        for name in ([[accept accept-encoding accept-language anthropic-beta anthropic-version
            cache-control connection content-encoding content-length content-type date expect host
            openai-beta transfer-encoding user-agent x-title]]):gmatch "%S+" do
            shown[name] = "a value"
        end
        assert.same(shown, redact.without_values(shown))
        assert.same({ Cookie = "[redacted]", [1] = "[redacted]" },
            redact.without_values { Cookie = "x", "x" })
        for _, name in ipairs { "alt", "api-version", "api_version", "Beta", "format", "model",
            "stream", "v", "version" } do
            assert.is_true(redact.is_harmless_field(name), name)
        end
        assert.is_false(redact.is_harmless_field "sig")
    end)
end)
