-- Code runs because somebody named it, never because it is in the current directory.

local merge = require("ponder.base.options").merge
local shell = require "shell"
local trust = require "ponder.think.prompt.trust"

local IS_ROOT = shell.run("test $(id -u) = 0").status == 0
local MODEL = "return function() return [[The answer is 7.]] end"
-- Tries whatever a hostile checkout might, and prints what succeeds.
local HOSTILE = [[
local f = io and io.open("HARM", "w") if f then f:close() end
if os then os.execute "touch HARM" end
return { generate = function(context)
    if os then os.execute "touch HARM" end
    return { { role = "user", content = "HOSTILE " .. context.prompt } }
end }
]]

local dir, state

local function ponder(arguments, env)
    return shell.ponder(arguments, { cwd = dir.path .. "/checkout", env = merge({
        XDG_STATE_HOME = state, XDG_CONFIG_HOME = dir.path .. "/config", OPENAI_API_KEY = "",
        ANTHROPIC_API_KEY = "", OLLAMA_HOST = "http://127.0.0.1:9", PONDER_PROMPTS = "",
        PONDER_MODEL = "script:" .. dir.path .. "/model.lua" }, env) })
end

local function is_compromised()
    return shell.run(("ls %s/checkout/HARM >$OUT 2>&1"):format(dir.path)).status == 0
end

-- Which prompt the model of a run gets.
local function asked(arguments, env)
    local r = ponder({ "cot", "--model", "script:" .. dir.path .. "/echo.lua", "--no-log", "Why?",
        table.unpack(arguments or {}) }, env)
    return r.out:find("HOSTILE", 1, true) ~= nil, r
end

before_each(function()
    dir = shell.directory { ["model.lua"] = MODEL, ["checkout/prompts/cot.lua"] = HOSTILE,
        ["echo.lua"] = "return function(r) return r.messages[#r.messages].content end" }
    state = dir.path .. "/state"
end)
after_each(function() dir:__close() end)

describe("a prompt file in the current directory", function()
    it("is not used just because it exists, and a run says so", function()
        local is_used, r = asked()
        assert.is_false(is_used)
        assert.matches("ponder: ./prompts/cot.lua is not used %(./prompts: is not trusted%); "
            .. "to use it: ponder trust ./prompts\n", r.err)
        assert.is_false(is_compromised())
    end)

    it("is not run by commands that only read", function()
        for _, arguments in ipairs { { "doctor" }, { "prompts", "list" }, { "prompts", "check" },
            { "prompts", "show", "cot" }, { "prompts", "show", "cot.generate" }, { "models" },
            { "completion", "bash" }, { "man" }, { "log" }, { "--help" } } do
            local r = ponder(arguments, { PONDER_PROMPTS = "./prompts" })
            assert.is_false(is_compromised(), table.concat(arguments, " ") .. r.err)
            ponder(arguments)
            assert.is_false(is_compromised(), table.concat(arguments, " "))
        end
    end)

    it("is used if it is named, with Lua's pure library, and a run says so", function()
        local is_used, r = asked { "--prompts", "prompts" }
        assert.is_true(is_used)
        assert.matches("ponder: prompts/cot.lua overrides the built%-in prompts\n", r.err)
        assert.is_true((asked({}, { PONDER_PROMPTS = "prompts" })))
        assert.is_false(is_compromised())
    end)

    it("is used once it is trusted, until something changes", function()
        local r = ponder { "trust", "prompts" }
        assert.equal(0, r.status, r.err)
        assert.matches("/checkout/prompts/cot.lua\n$", r.out)
        assert.is_true((asked()))
        assert.matches("^/.*/checkout/prompts\n$", ponder({ "trust", "--list" }).out)
        dir:write("checkout/prompts/other.lua", "")
        local is_used, run = asked()
        assert.is_false(is_used)
        assert.matches("has changed since it was trusted", run.err)
        assert.matches("has changed since", ponder({ "trust", "--list" }).out)
        os.remove(dir.path .. "/checkout/prompts/other.lua")
        assert.is_true((asked()))
        dir:write("checkout/prompts/cot.lua", HOSTILE .. " ")
        assert.is_false((asked()))
        assert.equal(0, ponder({ "trust", "./prompts/" }).status)
        assert.is_true((asked()))
        assert.equal(0, ponder({ "trust", "--remove", "prompts" }).status)
        assert.is_false((asked()))
        assert.equal(2, ponder({ "trust", "--remove", "prompts" }).status)
        assert.is_false(is_compromised())
    end)

    it("is not trusted if others may write it, or it is not the caller's own", function()
        for _, change in ipairs { "chmod g+w prompts", "chmod o+w prompts/cot.lua",
            "mv prompts/cot.lua x; ln -s ../x prompts/cot.lua",
            IS_ROOT and "chown 12345 prompts" or "chmod g+w prompts",
            IS_ROOT and "chown 12345 prompts/cot.lua" or "chmod g+w prompts" } do
            shell.run(("cd %s/checkout; rm -rf prompts; mkdir prompts"):format(dir.path))
            dir:write("checkout/prompts/cot.lua", HOSTILE)
            assert.equal(0, ponder({ "trust", "prompts" }).status)
            shell.run(("cd %s/checkout; %s"):format(dir.path, change))
            assert.is_false((asked()), change)
            assert.equal(1, ponder({ "trust", "prompts" }).status)
        end
    end)

    it("is one of at most 1000, of at most a MiB each, in whatever order they are read", function()
        local at = dir.path .. "/checkout/prompts"
        local function read(script)
            shell.run(("cd %s && %s"):format(at, script))
            return trust.read(at)
        end
        local all = read "seq 999 | sed s/$/.lua/ | xargs touch; head -c 1048576 /dev/zero >cot.lua"
        local sorted = table.move(all.names, 1, #all.names, 1, {})
        table.sort(sorted)
        assert.same({ 1000, sorted }, { #all.names, all.names })
        assert.same({ nil, at .. ": more than 1000 Lua files" }, { read "touch 1000.lua" })
        local contents, message = read "rm 1000.lua; echo >>cot.lua"
        assert.is_nil(contents)
        assert.matches("/cot.lua: ", message, 1, true)
    end)

    it("is read from the log in a replay", function()
        ponder { "trust", "prompts" }
        local r = ponder { "cot", "--model", "script:" .. dir.path .. "/echo.lua", "--log", "a.db",
            "--quiet", "Why?" }
        assert.equal("HOSTILE Why?\n", r.out, r.err)
        assert.equal("", r.err)
        shell.run(("rm -r %s/checkout/prompts"):format(dir.path))
        assert.equal("HOSTILE Why?\n", ponder({ "replay", "a.db" }).out)
    end)
end)

describe("the trust file", function()
    it("is private, and ignored if others may write it", function()
        ponder { "trust", "prompts" }
        local path = state .. "/ponder/trusted-prompts"
        assert.equal("600\n", shell.run("stat -c %a " .. path .. " >$OUT").out)
        shell.run("chmod 666 " .. path)
        assert.is_false((asked()))
        local r = ponder { "trust", "--list" }
        assert.same({ 1, "" }, { r.status, r.out })
        assert.matches("others may read or write it", r.err)
    end)
end)

describe("a scripted model", function()
    local SCRIPT = "os.execute 'touch HARM' " .. MODEL

    it("is not run by doctor", function()
        dir:write("checkout/m.lua", SCRIPT)
        local r = ponder({ "doctor" }, { PONDER_MODEL = "script:m.lua" })
        assert.matches("default model +script:m.lua", r.out)
        assert.is_false(is_compromised())
        dir:write("checkout/m.lua", "return (")
        r = ponder({ "doctor" }, { PONDER_MODEL = "script:m.lua" })
        assert.matches("default model +m.lua:1: unexpected symbol", r.out)
    end)

    it("of the config file has an absolute path", function()
        dir:write("checkout/m.lua", SCRIPT)
        for text, env in pairs { ["return { default_model = 'script:m.lua' }"] = "",
            ["return { aliases = { mine = 'script:m.lua' } }"] = "mine" } do
            dir:write("config/ponder/config.lua", text)
            local r = ponder({ "cot", "Why?" }, { PONDER_MODEL = env })
            assert.matches("config.lua: the path of script:m.lua must be absolute", r.err)
            assert.is_false(is_compromised())
        end
    end)
end)

describe("ponder doctor", function()
    it("names files that others may read or write", function()
        dir:write("config/ponder/config.lua", "return { defaults = { api_key = 'k' } }")
        shell.run(([[cd %s; umask 022; chmod 600 config/ponder/config.lua; mkdir -m 700 -p state
            cd checkout; echo 'return 1' > s.lua; XDG_STATE_HOME=%s %s run --log a.db s.lua
            sqlite3 other.db 'CREATE TABLE t (x)' || touch other.db]]):format(dir.path, state,
            shell.executable))
        assert.matches("privacy +only their owner may read logs, caches and settings",
            ponder({ "doctor" }).out)
        shell.run(("cd %s; chmod 644 checkout/a.db config/ponder/config.lua"):format(dir.path))
        local out = ponder({ "doctor" }).out
        assert.matches("privacy +others may read or write %./a.db, /[^,]*/config.lua\n", out)
        assert.matches("chmod go= %./a.db /", out)
    end)
end)

describe("ponder trust", function()
    it("requires one directory", function()
        local ONE, NONE = "expected one directory: ponder trust ./prompts",
            "--list does not take a directory"
        for _, case in ipairs { { ONE }, { ONE, "a", "b" }, { NONE, "--list", "a" },
            { NONE, "--list", "--remove" } } do
            local r = ponder { "trust", table.unpack(case, 2) }
            assert.same({ 2, ("ponder trust: %s\n"):format(case[1]) }, { r.status, r.err })
        end
        local r = ponder { "trust", "nowhere" }
        assert.equal("ponder trust: nowhere: No such file or directory\n", r.err)
        assert.equal(2, r.status)
    end)
end)
