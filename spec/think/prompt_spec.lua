local prompt
local tot = require "ponder.tot"

--- A directory that is removed after the test, with the files given by name.
local function with_directory(files, f)
    local dir = os.tmpname()
    os.remove(dir)
    assert(os.execute(("mkdir %q"):format(dir)))
    for name, text in pairs(files) do
        local file = assert(io.open(dir .. "/" .. name, "wb"))
        file:write(text)
        file:close()
    end
    local ok, problem = pcall(f, dir)
    for name in pairs(files) do
        os.remove(dir .. "/" .. name)
    end
    os.remove(dir)
    assert(ok, problem)
end

describe("ponder.prompt", function()
    local notices

    before_each(function() -- directories that were added stay
        package.loaded["ponder.prompt"], package.loaded["ponder.base.notice"] = nil, nil
        prompt = require "ponder.prompt"
        notices = {}
        require("ponder.base.notice").listen(function(line) table.insert(notices, line) end)
    end)

    it("loads the built-in prompts of every machine", function()
        for _, name in ipairs { "tot", "got", "trm" } do
            local prompts = assert(prompt.load(name))
            local count = 0
            for _, f in pairs(prompts) do
                count = count + (type(f) == "function" and 1 or 0)
            end
            assert.is_true(count >= 3, name)
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

    it("reports that a named directory lacks the file", function()
        with_directory({ ["tott.lua"] = "return {}", ["a.lua"] = "return {}", ["b.txt"] = "" },
            function(dir)
                with_directory({}, function(empty)
                    prompt.add(dir)
                    prompt.add(empty)
                    assert(prompt.load "tot")
                    assert(prompt.load "tot")
                    assert.same({ empty .. " has no tot.lua (nor any other Lua file)",
                        dir .. " has no tot.lua (it has a.lua, tott.lua)" }, notices)
                end)
            end)
    end)

    it("prefers a file in an added directory, and re-reads it", function()
        with_directory({ ["tot.lua"] = 'return { generate = function() return {} end, mark = 1 }' },
            function(dir)
                prompt.add(dir)
                assert.equal(dir, prompt.directories()[1])
                assert.equal(dir .. "/tot.lua", prompt.find("tot").path)
                assert.equal(1, prompt.load("tot").mark)
                local file = assert(io.open(dir .. "/tot.lua", "wb"))
                file:write("return { mark = 2 }")
                file:close()
                assert.equal(2, prompt.load("tot").mark)
                assert.same({ dir .. "/tot.lua overrides the built-in prompts" }, notices)
                os.remove(dir .. "/tot.lua")
                assert.is_nil(assert(prompt.load("tot")).mark)
            end)
    end)

    it("reports that an added directory does not exist", function()
        prompt.add "/nowhere"
        local prompts, message, code = prompt.load("tot")
        assert.is_nil(prompts)
        assert.equal("/nowhere: No such file or directory", message)
        assert.equal("BAD_PROMPT", code)
    end)

    it("uses no file that other users may write", function()
        with_directory({ ["tot.lua"] = "return {}" }, function(dir)
            prompt.add(dir)
            for _, path in ipairs { dir .. "/tot.lua", dir } do
                os.execute("chmod g+w " .. path)
                local _, message, code = prompt.load("tot")
                assert.equal(path .. ": others may write it: chmod go-w " .. path, message)
                assert.equal("BAD_PROMPT", code)
                os.execute("chmod go-w " .. path)
                assert.is_truthy(prompt.load("tot"))
            end
        end)
    end)

    it("returns a file's table without its metatable", function()
        with_directory({ ["tot.lua"] = "return setmetatable({ a = 1, [2] = 3 }, "
            .. "{ __index = function() error 'asked' end })" }, function(dir)
            prompt.add(dir)
            assert.same({ a = 1 }, prompt.load("tot"))
            assert.is_nil(prompt.load("tot").b)
        end)
    end)

    it("provides contexts whose methods a file cannot change", function()
        with_directory({ ["tot.lua"] = [[
            return { generate = function(context)
                local reached = context.__index or getmetatable(context)
                context.quote = nil
                return { { role = "user", content = tostring(reached) .. context:quote("a", "b") } }
            end }]] }, function(dir)
            prompt.add(dir)
            local machine = tot.new { prompts = prompt.load("tot") }
            local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
            assert.equal("nil<a>\nb\n</a>", directives[1].context[1].content)
        end)
    end)

    it("reports errors with file and line", function()
        for text, pattern in pairs {
            ["return {\n\n]"] = "tot.lua:3:", ["\nerror 'boom'"] = "tot.lua:2: boom",
            ["return 5"] = "must return a table", ["\27Lua"] = "binary chunk",
        } do
            with_directory({ ["tot.lua"] = text }, function(dir)
                prompt.add(dir)
                local prompts, message, code = prompt.load("tot")
                assert.is_nil(prompts)
                assert.truthy(message:find(pattern, 1, true), message)
                assert.equal("BAD_PROMPT", code)
            end)
        end
    end)

    it("returns tables that a machine accepts", function()
        local machine = tot.new { prompts = prompt.load("tot") }
        local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
        assert.equal("system", directives[1].context[1].role)
    end)
end)
