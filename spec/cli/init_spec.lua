local evaluation = require "evaluation"
local json = require "ponder.json"
local shell = require "shell"

local environment = evaluation.environment

describe("ponder init", function()
    local dir

    before_each(function() dir = shell.directory() end)
    after_each(function() dir:__close() end)

    local function ponder(...)
        return shell.ponder({ ... }, { cwd = dir.path, env = environment {
            PONDER_MODEL = "script:model.lua" } })
    end

    it("writes files that run unchanged", function()
        dir:write("model.lua", [[return function(request)
            local text = request.messages[#request.messages].content
            return { text = text:find "6 %* 7" and "Answer: 42" or "Answer: 0" }
        end]])
        assert.equal("wrote eval.lua; try: ponder eval eval.lua\n", ponder("init").out)
        local result = ponder("eval", "--no-log", "--model", "script:model.lua", "eval.lua")
        assert.equal(0, result.status, result.err)
        assert.matches("\nguess +3 +66%.7 %%", result.out)
        assert.matches("\nio +3 +33%.3 %%", result.out)
        assert.equal(0, ponder("init", "policy", "p.lua").status)
        assert.matches("^stop\t1 %-> 3", ponder("p.lua").out)
        assert.equal(0, ponder("init", "search").status)
        result = ponder("tot", "--quiet", "--search", "search.lua", "--model", "script:"
            .. shell.root .. "/scripts/models/arithmetic.lua", "Use 4 4 6 8 to make 24")
        assert.equal(0, result.status, result.err)
        assert.equal(0, ponder("init", "strategy").status)
        result = ponder("ask", "--quiet", "--strategy", "strategy.lua", "What is 6 * 7?")
        assert.equal("42\n", result.out, result.err)
        local checked = shell.run(("cd %s && luacheck -q --std lua54 eval.lua p.lua search.lua "
            .. "strategy.lua >$OUT 2>&1"):format(shell.quote(dir.path)))
        assert.equal(0, checked.status, checked.out)
    end)

    it("says what to type so that it runs with or without a model in the environment", function()
        local function init(kind, ...)
            local r = shell.ponder({ "init", kind, ... }, { cwd = dir.path,
                env = environment { PONDER_MODEL = "", OPENAI_API_KEY = "sk-0123456789" } })
            assert.equal(0, r.status, r.err)
            return r.out
        end
        for _, kind in ipairs { "model", "eval", "search", "strategy", "policy" } do
            local words = init(kind):match "^wrote %S+; try: ponder (.-)\n$"
            words = words:gsub(" %(ponder init model writes model.lua%)$", "")
            local r = shell.run(("cd %s; XDG_STATE_HOME=$PWD %s %s 2>$ERR >$OUT"):format(
                dir.path, shell.quote(shell.executable), words))
            assert.equal(0, r.status, r.err)
            assert.not_equal("", r.out)
        end
        local r = shell.ponder({ "eval", "eval.lua" }, { cwd = dir.path,
            env = environment { PONDER_MODEL = "", OPENAI_API_KEY = "sk-0123456789" } })
        assert.equal(1, r.status) -- a key alone starts no calls
        assert.matches("no model is named", r.err)
        assert.equal(dir:read "eval.lua", init("eval", "-"))
    end)

    it("writes a model that every strategy can play", function()
        ponder("init", "model")
        for name, calls in pairs { cot = 1, tot = 6, got = 9, trm = 2 } do
            for question, answer in pairs { ["What is 6 * 7?"] = "4[23]", Who = "only do sums" } do
                local r = shell.ponder({ name, "--no-log", "--json", "--model", "script:model.lua",
                    question }, { cwd = dir.path, env = environment() })
                assert.equal(0, r.status, r.err)
                local outcome = json.decode(r.out)
                assert.matches(answer, outcome.answer)
                assert.is_true(outcome.spent.calls >= calls)
                assert.same(name == "tot" and { generation = 0, evaluation = 0 } or nil,
                    name == "tot" and outcome.result.diagnostics.parse_retries or nil)
            end
        end
    end)

    it("writes settings where they are read, or to a file", function()
        local env = environment { PONDER_MODEL = "", XDG_CONFIG_HOME = dir.path .. "/etc" }
        local function run(...)
            return shell.ponder({ ... }, { cwd = dir.path, env = env })
        end
        local path = dir.path .. "/etc/ponder/config.lua"
        assert.equal(("wrote %s; try: ponder doctor\n"):format(path), run("init", "config").out)
        for _, alias in ipairs { "fast", "careful" } do -- it is read, and a key is all that lacks
            local r = run("chat", "--no-log", "--model", alias, "hi")
            assert.same({ 1, "ponder chat: OPENAI_API_KEY is not set (a key, or base_url for a "
                .. "server that needs none)\n" }, { r.status, r.err })
        end
        assert.is_truthy(run("init", "config").err:find("config.lua already exists", 1, true))
        assert.equal("wrote c.lua; try: ponder doctor\n", run("init", "config", "c.lua").out)
        assert.equal(dir:read "c.lua", dir:read "etc/ponder/config.lua")
    end)

    it("works with a broken config file", function()
        dir:write("ponder/config.lua", "return {")
        local r = shell.ponder({ "init", "strategy" }, { cwd = dir.path,
            env = environment { PONDER_MODEL = "", XDG_CONFIG_HOME = dir.path } })
        assert.same({ 0, "" }, { r.status, r.err })
        assert.matches("^wrote strategy%.lua; try: ponder ask %-%-model script:model%.lua", r.out)
    end)

    it("changes no file that exists", function()
        dir:write("eval.lua", "mine")
        local result = ponder "init"
        assert.same({ 2, "ponder init: eval.lua already exists, and is not changed; to write "
            .. "another file: ponder init eval FILE\n" }, { result.status, result.err })
        assert.equal("mine", dir:read "eval.lua")
        assert.equal(2, ponder("init", "evil").status)
    end)
end)
