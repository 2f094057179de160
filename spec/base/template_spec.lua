local help = require "task_help"
local template = require "ponder.template"

local function render(text, values)
    return template.compile(text)(values)
end

local function fails(expected, text, values, name)
    local ok, message = pcall(function() return template.compile(text, name)(values or {}) end)
    assert.same({ false, expected }, { ok, message })
end

describe("ponder.template", function()
    it("inserts values unchanged", function()
        assert.equal("a<b>&\"{{x}}", render("{{ x }}{{y}}", { x = "a<b>", y = '&"{{x}}' }))
        assert.equal("3 0.5 -", render("{{i}} {{f}} {{e.f}}", { i = 3, f = 0.5, e = { f = "-" } }))
        assert.equal("", render("", {}))
        assert.equal("{ } {x} }}", render("{ } {x} }}", {}))
        assert.equal("a%1%%b", render("a{{v}}b", { v = "%1%%" }))
    end)

    it("repeats a section for each item, and looks outwards for a name", function()
        local text = "{{#list}}\n- {{name}} of {{all}}\n{{/list}}\n{{^list}}\nnone\n{{/list}}\n"
        assert.equal("- a of 2\n- b of 2\n", render(text,
            { all = 2, list = { { name = "a" }, { name = "b" } } }))
        assert.equal("none\n", render(text, { list = {} }))
        assert.equal("none\n", render(text, {}))
        assert.equal("1, 2, ", render("{{#n}}{{.}}, {{/n}}", { n = { 1, 2 } }))
        assert.equal("1a1b2a2b", render("{{#x}}{{#y}}{{n}}{{.}}{{/y}}{{/x}}",
            { x = { { n = 1 }, { n = 2 } }, y = { "a", "b" } }))
    end)

    it("renders a section once for a value, and not for nothing", function()
        local text = "{{#v}}yes{{/v}}{{^v}}no{{/v}}"
        for _, value in ipairs { true, "text", 0, { field = 1 }, { {} } } do
            assert.equal("yes", render(text, { v = value }))
        end
        for _, value in ipairs { false, "", {} } do
            assert.equal("no", render(text, { v = value }))
        end
        assert.equal("Ada", render("{{#who}}{{name}}{{/who}}", { who = { name = "Ada" } }))
    end)

    it("leaves no line for a tag alone on it", function()
        assert.equal("a\nb\nc", render("a\n  {{! note\n of two lines }}  \r\n"
            .. "{{#v}}\nb\n{{/v}}\nc", { v = true }))
        assert.equal("a x b\n", render("a {{#v}}x{{/v}} b\n", { v = true }))
        assert.equal("x\n{{", render("{{x}}\n{{", { x = "x" }))
    end)

    it("finds a name in the innermost scope that has it, even if it is false there", function()
        assert.equal("inner-, none", render("{{#list}}{{#a}}outer{{/a}}{{^a}}inner{{/a}}-{{/list}}"
            .. ", {{#list}}{{^a.b}}none{{/a.b}}{{/list}}",
            { a = { b = "x" }, list = { { a = false } } }))
        fails("template:1: {{a.b}} must be text (got nil)", "{{#list}}{{a.b}}{{/list}}",
            { a = { b = "outer" }, list = { { a = { c = 1 } } } })
        fails("template:1: {{x}} must be text (got false)", "{{x}}", { x = false })
    end)

    it("reports errors with their place", function()
        fails("template:2: {{promt}} must be text (got nil)", "a\n{{promt}}", { prompt = "x" })
        fails("t.txt:1: {{f}} must be text (got a table)", "{{f}}", { f = {} }, "t.txt")
        fails("template:1: {{a.b}} must be text (got nil)", "{{a.b}}", { a = "text" })
        fails("template:3: {{#list}} is not closed", "\n\n{{#list}}\n\n")
        fails("template:1: {{^a}} is not closed", "{{^a}}{{/b}}")
        fails("template:2: {{/a}} does not fit here", "\n{{/a}}")
        fails("template:1: {{}} does not fit here", "{{}}")
        fails("template:1: {{#}} does not fit here", "{{# }}x{{/}}")
    end)

    it("names values that are not text", function()
        help.mistakes { ["template.compile: text must be a string %(got nil%)$"] = function()
            local _ = template.compile(nil)
        end }
    end)

    it("accepts any text", function()
        local pieces = { "{{", "}}", "#", "/", "^", "!", "a", " ", "\n", ".", "{", "\0", "\255" }
        math.randomseed(5)
        for _ = 1, 3000 do
            local parts = {}
            for i = 1, math.random(12) do parts[i] = pieces[math.random(#pieces)] end
            local ok, message = pcall(render, table.concat(parts), { a = "x" })
            assert.is_true(ok or message:find("^template:%d+: {{") ~= nil, message)
        end
    end)
end)
