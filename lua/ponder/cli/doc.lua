--- `ponder doc [NAME]`: the reference, made from doc comments.

local cli = require "ponder.cli"
local builtin = require "ponder.builtin"
local comments = require "ponder.report.doc.comments"
local generated = require "ponder.report.doc.generated"
local host = require "ponder.core.host"
local options = require "ponder.options"
local quote = require "ponder.quote"
local render = require "ponder.report.doc.render"
local stubs = require "ponder.report.doc.stubs"
local styles = require "ponder.report.style"

local doc = cli.command({ expects = { 0, 1, "one name" } }, {
    { "columns", value = "N", type = "integer", min = 20, max = 1000,
        help = "width of the text (default: the terminal's; 80 elsewhere)" },
    { "all", help = "list internal modules, too" },
    { "stubs", value = "DIR", files = true,
        help = "write annotations for lua-language-server to DIR" },
})

doc.summary = "the reference: ponder doc search.run"

doc.about = [[
ponder doc [OPTION...] [NAME]

Lists the modules, or shows NAME: a module (search, strategy.tot), a function (search.run,
model.open), a class (SearchNode, ponder.model.Reply) or a method. The prefix `ponder.` is optional;
so are all but the last part of a class's name.

--stubs DIR writes the annotations of all modules to DIR, and DIR/.luarc.json, which tells
lua-language-server about them: open DIR in an editor, or copy that file into a project.]]

-- The modules that scripts require; the others are internal.
local PUBLIC = { "search", "task", "run", "process", "model", "model.cache", "model.price",
    "model.provider", "model.script", "log", "log.graph", "strategy", "strategy.tools",
    "operations", "operations.methods", "ensemble", "eval", "eval.matrix", "eval.policy",
    "eval.score", "stats", "serve", "mcp", "queue", "redis", "sandbox", "template", "prompt",
    "parse", "machine", "json", "args", "policy", "quote" }
for _, name in ipairs(builtin.strategies) do
    table.move({ "strategy." .. name, name }, 1, 2, #PUBLIC + 1, PUBLIC)
end
local IS_PUBLIC = {}
for _, name in ipairs(PUBLIC) do
    IS_PUBLIC[name] = true
end

local WIDE, NAME_COLUMN = 60, 28 -- width of a wide page; where sentences begin in it
local MAX_NESTED = 3 -- levels of classes whose fields a function's page shows

---------------------------------------------------------------------------------------------------
-- Modules and entries

-- All modules, and entries by name; short names are aliases.
local function read_index()
    local index = { modules = comments.read(host.embedded("doc/comments.txt")), by_name = {},
        names = {} }
    generated.strategies(index.modules)
    generated.exports(index.modules, PUBLIC)
    local function add(name, value, is_alias)
        if not index.by_name[name] then
            index.by_name[name] = value
            index.names[#index.names + 1] = not is_alias and name or nil
        end
    end
    local function each_entry(f)
        for _, module in ipairs(index.modules) do
            for _, entry in ipairs(module.entries) do
                if not entry.is_private then
                    f(entry, module)
                end
            end
        end
    end
    local described = {} -- public modules with a long header
    for _, module in ipairs(index.modules) do
        described[module.name] = IS_PUBLIC[module.name] and module.header
            and #module.header.text > 3
    end
    each_entry(function(entry, module)
        if entry.params[1] and entry.name ~= module.name and not described[entry.name] then
            add(entry.name, { entry = entry })
        end
    end)
    for _, module in ipairs(index.modules) do
        add(module.name, { module = module })
    end
    each_entry(function(entry) add(entry.name, { entry = entry }) end)
    each_entry(function(entry)
        add(entry.name:gsub("^ponder%.", ""), { entry = entry }, true)
        add(entry.name:match("[^.]+$"), { entry = entry }, true)
    end)
    table.sort(index.names)
    return index
end

---The names of modules and of their functions.
---@return string[]
function doc.names()
    local names = {}
    for _, name in ipairs(read_index().names) do
        names[#names + 1] = name:find("^%l[%w_.]*$") and name or nil
    end
    return names
end

local function find(index, name)
    return index.by_name[name] or index.by_name[name:gsub("^ponder%.", "")]
        or index.by_name[name:gsub(":", ".")]
end

-- The class that a type names, without `?`, `[]` and `nil`.
local function class_of(index, kind)
    local name = kind:gsub("%?$", ""):gsub("|nil$", ""):gsub("%[%]$", "")
    local found = name:find("^[%w_.]+$") and index.by_name[name]
    return found and found.entry and found.entry.kind == "class" and found.entry or nil
end

-- The first sentence of a comment.
local function first_sentence(lines)
    local words = {}
    for _, line in ipairs(lines) do
        if line:find("^%s*$") then
            break
        end
        words[#words + 1] = line
    end
    local whole, from = table.concat(words, " "), 1
    repeat
        from = whole:find("[.]%s", from + 1)
    until not from or not whole:find("^%f[%w]al[.]", from - 2)
    return (from and whole:sub(1, from) or whole):gsub(":$", ".")
end

---------------------------------------------------------------------------------------------------
-- Pages

local function signature(entry)
    local returns = {}
    for i, result in ipairs(entry.returns) do
        returns[i] = result.name or result.type
    end
    return ("%s(%s)%s"):format(entry.name, comments.parameters(entry),
        returns[1] and " -> " .. table.concat(returns, ", ") or "")
end

local add_fields -- (page, index, class, indent, shown, named)

-- The fields of a parameter's or result's class.
local function add_class_of(page, index, typed, indent, shown)
    local class = class_of(index, typed.type)
    if class and not shown[class] and indent <= 4 * MAX_NESTED then
        add_fields(page, index, class, indent, shown)
    end
end

-- `named`: the fields shown of classes that inherit from this one, and may redefine its fields.
function add_fields(page, index, class, indent, shown, named)
    shown[class], named = true, named or {}
    for _, field in ipairs(class.fields) do
        if not named[field.name or field] then
            named[field.name or field] = true
            page:typed(field, indent)
        end
    end
    for _, name in ipairs(class.parents) do
        local parent = class_of(index, name)
        if parent and not shown[parent] then
            page:gap()
            page:comment(parent.text, indent)
            add_fields(page, index, parent, indent, shown, named)
        end
    end
end

-- Refers to classes that fields mention and the page does not show.
local function add_mentioned(page, index, shown)
    local names, known = {}, {}
    for class in pairs(shown) do
        for _, field in ipairs(class.fields) do
            for name in field.type:gmatch("[%a][%w_.]+") do
                local other = class_of(index, name)
                if other and not shown[other] and not known[other] then
                    known[other] = true
                    names[#names + 1] = other.name
                end
            end
        end
    end
    if names[1] then
        table.sort(names)
        page:gap()
        page:fill("See also: " .. table.concat(names, ", "), 0)
    end
end

local function add_list(page, index, title, list, shown)
    if list[1] then
        page:gap()
        page:line(title, "bold")
        for _, typed in ipairs(list) do
            page:typed(typed, 2)
            add_class_of(page, index, typed, 6, shown)
        end
    end
end

local function function_page(page, index, entry)
    page:fill(signature(entry), 4, "")
    page:gap()
    page:comment(entry.text, 0)
    local shown = {}
    add_list(page, index, "Arguments", entry.params, shown)
    add_list(page, index, "Returns", entry.returns, shown)
    for _, name in ipairs(entry.see) do
        page:gap()
        page:fill("See: " .. name, 0)
    end
    add_mentioned(page, index, shown)
end

local function add_functions(page, title, entries)
    if entries[1] then
        page:gap()
        page:line(title, "bold")
    end
    for _, entry in ipairs(entries) do
        page:fill(entry.kind == "function" and signature(entry) or entry.name, 6, "  ")
        local sentence = first_sentence(entry.text)
        if sentence ~= "" then
            page:fill(sentence, 6)
        end
    end
end

local function class_page(page, index, class)
    page:line(class.name, "bold")
    page:comment(class.text, 0)
    page:gap()
    local shown, methods = {}, {}
    add_fields(page, index, class, 2, shown)
    for _, module in ipairs(index.modules) do
        for _, entry in ipairs(module.entries) do
            if entry.owner == class.name and entry.kind == "function" and not entry.is_private then
                methods[#methods + 1] = entry
            end
        end
    end
    add_functions(page, "Methods", methods)
    add_mentioned(page, index, shown)
end

local function module_page(page, index, module)
    page:line("ponder." .. module.name, "bold")
    page:gap()
    page:comment(module.header and module.header.text or {}, 0)
    local functions, classes = {}, {}
    for _, entry in ipairs(module.entries) do
        if entry.kind == "function" and entry.name == module.name then -- the module is a function
            page:gap()
            function_page(page, index, entry)
        elseif entry.exported and not entry.is_private then
            functions[#functions + 1] = entry
        elseif entry.kind == "class" or entry.kind == "alias" then
            classes[#classes + 1] = entry
        end
    end
    add_functions(page, "Functions", functions)
    add_functions(page, "Classes", classes)
end

local function entry_page(page, index, entry)
    if entry.kind == "function" then
        function_page(page, index, entry)
    elseif entry.kind == "class" then
        class_page(page, index, entry)
    else
        page:line(entry.name, "bold")
        page:comment(entry.text, 2)
        for _, name in ipairs(entry.see) do
            page:fill("See: " .. name, 2)
        end
    end
end

local function list_page(page, index, all)
    local others = {}
    for _, name in ipairs(PUBLIC) do
        local module = (index.by_name[name] or {}).module
        if module and module.header then
            local sentence = first_sentence(module.header.text)
            if page.columns < WIDE then
                page:line("  " .. name, "bold")
                page:fill(sentence, 6)
            else
                page:fill(sentence, NAME_COLUMN,
                    "  " .. page.style:paint(name, "bold") .. (" "):rep(NAME_COLUMN - 2 - #name))
            end
        end
    end
    for _, module in ipairs(index.modules) do
        others[#others + 1] = not IS_PUBLIC[module.name] and module.name or nil
    end
    page:gap()
    if all then
        page:fill("Internal modules: " .. table.concat(others, ", "), 0)
    else
        page:fill("ponder doc NAME shows the functions and classes of a module.", 0)
    end
end

---------------------------------------------------------------------------------------------------

-- Prints the page that make(page) writes.
local function print_page(opts, make)
    local style = styles.of(1)
    local columns = opts.columns or (style:size())
    local page = render.new(columns, style)
    make(page)
    while page.lines[#page.lines] == "" do
        page.lines[#page.lines] = nil
    end
    io.write(table.concat(page.lines, "\n"), "\n")
    return 0
end

local function write_stubs(index, directory)
    local count, message = stubs.write(index.modules, directory)
    if not count then
        return 1, "--stubs: " .. message
    end
    print(("%s in %s; copy %s/.luarc.json into a project, or open %s in an editor"):format(
        quote.count(count, "file"), directory, directory, directory))
    return 0
end

-- A hint at a name that ends with this one (cache.open: model.cache.open), else at the nearest.
local function hint(name, names)
    for _, other in ipairs(names) do
        if other:sub(-#name - 1) == "." .. name then
            return (" (did you mean %s?)"):format(other)
        end
    end
    return options.hint(name, names, "%s")
end

---See ponder.cli.
function doc.run(opts, operands)
    local index, name = read_index(), operands[1]
    if opts.stubs then
        return write_stubs(index, opts.stubs)
    elseif not name then
        return print_page(opts, function(page) list_page(page, index, opts.all) end)
    end
    local found = find(index, name)
    if not found then
        return nil, ("unknown name %s%s; ponder doc lists the modules"):format(
            options.show(name), hint(name, index.names))
    end
    return print_page(opts, function(page)
        if found.module then
            module_page(page, index, found.module)
        else
            entry_page(page, index, found.entry)
        end
    end)
end

return doc
