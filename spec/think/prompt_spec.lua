local shell = require "shell"
local tot = require "ponder.tot"

describe("ponder.prompt", function()
    local prompt, notices

    -- A directory with these files, which is added.
    local function added(files)
        local dir = shell.directory(files)
        prompt.add(dir.path)
        return dir
    end

    before_each(function() -- directories that were added stay
        package.loaded["ponder.prompt"], package.loaded["ponder.base.notice"] = nil, nil
        prompt = require "ponder.prompt"
        notices = {}
        require("ponder.base.notice").listen(function(line) table.insert(notices, line) end)
    end)

    it("loads the built-in prompts of every machine, which takes them", function()
        for _, name in ipairs { "tot", "got", "trm" } do
            local machine = require("ponder." .. name).new { prompts = assert(prompt.load(name)) }
            local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
            assert.equal("system", directives[1].context[1].role)
        end
    end)

    it("reports a machine without prompts", function()
        for _, name in ipairs { "nosuch", "../tot", "a/b", "tot.lua" } do
            local prompts, message, code = prompt.load(name)
            assert.is_nil(prompts)
            assert.truthy(message:find("no built-in prompts", 1, true), message)
            assert.equal("NO_PROMPT", code)
        end
        assert.has_error(function() prompt.load(5) end)
        assert.has_error(function() prompt.add("") end)
    end)

    it("prefers a file in an added directory, and re-reads it", function()
        local dir <close> = added { ["tot.lua"] = "return { mark = 1 }" }
        assert.equal(dir.path, prompt.directories()[1])
        assert.equal(dir.path .. "/tot.lua", prompt.find("tot").path)
        assert.equal(1, prompt.load("tot").mark)
        dir:write("tot.lua", "return { mark = 2 }")
        assert.equal(2, prompt.load("tot").mark)
        assert.same({ dir.path .. "/tot.lua overrides the built-in prompts" }, notices)
        os.remove(dir.path .. "/tot.lua")
        assert.is_nil(assert(prompt.load("tot")).mark)
    end)

    it("reports that an added directory does not exist", function()
        prompt.add "/nowhere"
        local prompts, message, code = prompt.load("tot")
        assert.is_nil(prompts)
        assert.equal("/nowhere: No such file or directory", message)
        assert.equal("BAD_PROMPT", code)
    end)

    it("uses no file that other users may write", function()
        local dir <close> = added { ["tot.lua"] = "return {}" }
        for _, path in ipairs { dir.path .. "/tot.lua", dir.path } do
            os.execute("chmod g+w " .. path)
            local _, message, code = prompt.load("tot")
            assert.equal(path .. ": others may write it: chmod go-w " .. path, message)
            assert.equal("BAD_PROMPT", code)
            os.execute("chmod go-w " .. path)
            assert.is_truthy(prompt.load("tot"))
        end
    end)

    it("returns a file's table without its metatable", function()
        local _ <close> = added { ["tot.lua"] = "return setmetatable({ a = 1, [2] = 3 }, "
            .. "{ __index = function() error 'asked' end })" }
        assert.same({ a = 1 }, prompt.load("tot"))
        assert.is_nil(prompt.load("tot").b)
    end)

    it("provides contexts whose methods a file cannot change", function()
        local _ <close> = added { ["tot.lua"] = [[
            return { generate = function(context)
                local reached = context.__index or getmetatable(context)
                context.quote = nil
                return { { role = "user", content = tostring(reached) .. context:quote("a", "b") } }
            end }]] }
        local machine = tot.new { prompts = prompt.load("tot") }
        local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
        assert.equal("nil<a>\nb\n</a>", directives[1].context[1].content)
    end)

    it("reports errors with file and line", function()
        for text, pattern in pairs {
            ["return {\n\n]"] = "tot.lua:3:", ["\nerror 'boom'"] = "tot.lua:2: boom",
            ["return 5"] = "must return a table", ["\27Lua"] = "binary chunk",
        } do
            local dir <close> = added { ["tot.lua"] = text }
            local prompts, message, code = prompt.load("tot")
            assert.same({ nil, "BAD_PROMPT" }, { prompts, code }, dir.path)
            assert.truthy(message:find(pattern, 1, true), message)
        end
    end)
end)
