--- `ponder doc [NAME]`: the reference, made from doc comments when ponder was built.

local cli = require "ponder.cli.shared.main"
local host = require "ponder.core.host"
local json = require "ponder.json"
local options = require "ponder.base.options"
local private = require "ponder.core.private"
local quote = require "ponder.quote"
local render = require "ponder.show.reference.render"

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

local function write_stubs(directory)
    local stubs = render.read("stubs")
    stubs[".luarc.json"] = json.encode({
        ["runtime.version"] = "Lua 5.4", ["workspace.checkThirdParty"] = false,
        ["workspace.library"] = { host.absolute(directory) or directory },
    }, { indent = 2 }) .. "\n"
    local names = options.names(stubs)
    for _, name in ipairs(names) do
        local path = directory .. "/" .. name
        cli.need_flag("--stubs", private.make_directory(path:match("^(.*)/")))
        local file <close> = cli.need_flag("--stubs", io.open(path, "w"))
        cli.need_flag("--stubs", file:write(stubs[name]))
    end
    print(("%s in %s; copy %s/.luarc.json into a project, or open %s in an editor"):format(
        quote.count(#names, "file"), directory, directory, directory))
    return 0
end

-- A hint at a name that ends with this one (cache.open: model.cache.open), or at a method of the
-- module (model.complete: model.Model:complete), else at the nearest.
local function hint(name, names)
    local module, method = name:match "^(%w+)%.(%w+)$"
    local ends = { "%." .. name:gsub("%p", "%%%0") .. "$",
        method and ("%%f[%%w]%s%%.%%w+:%s$"):format(module, method) }
    for _, pattern in ipairs(ends) do
        for _, other in ipairs(names) do
            if other:find(pattern) then
                return (" (did you mean %s?)"):format(other)
            end
        end
    end
    return options.hint(name, names, "%s")
end

function doc.run(opts, operands)
    local name = operands[1]
    cli.refuse(name and (opts.all and "--all lists modules: leave out the name"
        or opts.stubs and "--stubs writes all modules: leave out the name")
        or opts.stubs and (opts.all or opts.columns) and "--stubs takes no other option")
    if opts.stubs then
        return write_stubs(opts.stubs)
    end
    local reference = render.read("reference")
    local numbers = reference.numbers
    local page = not name and (opts.all and reference.all or reference.list) or name
        and reference.pages[numbers[name] or numbers[name:gsub("^ponder%.", "")]
            or numbers[name:gsub(":", ".")]]
    if not page then
        return nil, ("unknown name %s%s; ponder doc lists the modules"):format(
            options.show(name), hint(name, reference.names))
    end
    render.print(reference, page, opts.columns)
    return 0
end

return doc
