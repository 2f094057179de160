--- `ponder prompts`: lists, shows, copies and checks the prompts.

local builtin = require "ponder.base.builtin"
local check = require "ponder.think.prompt.check"
local cli = require "ponder.cli.shared.main"
local flags = require "ponder.cli.shared.flags"
local host = require "ponder.core.host"
local options = require "ponder.base.options"
local private = require "ponder.core.private"
local notice = require "ponder.base.notice"
local prompt = require "ponder.prompt"
local quote = require "ponder.quote"
local read_file = require("ponder.base.file").read
local strategy = require "ponder.strategy"

local prompts = cli.command({ words = { "check", "eject", "list", "show" } }, {
    { "to", value = "DIR", modes = { "eject" },
        help = "eject: the directory to copy to (default: ./prompts)" },
    { "force", modes = { "eject" }, help = "eject: replace existing files" },
    { "prompts", value = "DIR", modes = { "list", "show", "check" },
        help = "look for prompt files in DIR first" },
    { "strategy", value = "FILE", files = true,
        help = "include the prompts of the strategy that FILE returns" },
})

prompts.summary = "list, show, copy and check the prompts"

prompts.about = [[
ponder prompts list                every prompt, and the file it comes from
ponder prompts show NAME           the file: ponder prompts show tot
ponder prompts show NAME.FUNCTION  the messages, with sample data: tot.generate
ponder prompts eject [OPTION...] [NAME]
                                   copy the built-in files, or one, for editing
ponder prompts check [NAME]        render every prompt with sample data

--strategy FILE includes the prompts of your own strategy.

A file NAME.lua overrides the built-in one if it is in the directory of --prompts, in
$PONDER_PROMPTS or, after `ponder trust ./prompts`, in ./prompts: the first that has it. It is
re-read on every run and has only Lua's pure library. list, show NAME and eject run no file.]]

local own -- the strategy of --strategy

-- Ends the command unless a name is among the known ones.
local function check_known(is_known, what, name, known)
    cli.expect(is_known, ("unknown %s %s%s; known: %s"):format(what, name,
        options.hint(name, known, "%s"), table.concat(known, ", ")))
end

-- The names of the files that an operand selects, sorted; all without one.
local function select_names(operand)
    local names = builtin.prompt_names()
    names[#names + 1] = own and own.name
    table.sort(names)
    check_known(not operand or options.has(names, operand), "prompt file", operand or "", names)
    return operand and { operand } or names
end

-- The text of the file that comes with ponder or the strategy; or nil and why there is none.
local function original(name)
    if not own or own.name ~= name then
        return host.embedded("prompts/" .. name .. ".lua")
    end
    return own.prompt_text, ("the prompts of %s are functions of its script: move them to a prompt "
        .. "file, and give the strategy its text"):format(name)
end

-- Loads prompts as a run does.
local function load_prompts(name)
    return prompt.load(name, own and own.name == name and own.prompts or nil)
end

local function subject_of(name)
    return own and own.name == name and own.subject or strategy.subject(name)
end

local function function_names(name)
    return options.names(subject_of(name).functions(), function(function_name)
        return function_name ~= "instructions"
    end)
end

-- Where the prompts of a name come from; and the text of the user's file, or what is wrong with it.
local function find_text(name)
    local found = prompt.find(name)
    if found.problem or not found.path then
        return found, nil, found.problem
    end
    return found, read_file(found.path)
end

local commands = {}

function commands.list()
    local status = 0
    for _, name in ipairs(select_names()) do
        local found, _, problem = find_text(name)
        if problem then
            status = cli.fail("ponder prompts", problem)
        end
        for _, function_name in ipairs(problem and {} or function_names(name)) do
            print(("%-18s %s"):format(name .. "." .. function_name, found.path or found.unused
                and ("built in (./prompts not used: %s)"):format(found.unused) or "built in"))
        end
    end
    return status
end

function commands.show(operand)
    cli.expect(operand, "show needs a name, such as tot.generate")
    local name, function_name = operand:match("^([^.]+)%.?(.*)$")
    select_names(name or operand)
    if function_name == "" then
        local found, text, problem = find_text(name)
        if not found.path and not problem then
            text, problem = original(name)
        end
        io.write((cli.need(text, problem)))
        return 0
    end
    local names, subject = function_names(name), subject_of(name)
    for i, known in ipairs(names) do
        names[i] = name .. "." .. known
    end
    local default = subject.functions()[function_name]
    check_known(type(default) == "function", "prompt", operand, names)
    local found = cli.need(load_prompts(name))
    local f = type(found[function_name]) == "function" and found[function_name] or default
    local contexts = subject.samples()[function_name] or {}
    cli.need(contexts[1], operand .. ": the strategy has no samples to render it with")
    for i, message in ipairs(cli.need(check.render(f, contexts[#contexts]))) do
        print(("%s[%s]\n%s"):format(i > 1 and "\n" or "", message.role, message.content))
    end
    return 0
end

function commands.eject(operand, opts)
    local directory = (opts.to or "./prompts"):gsub("(.)/+$", "%1")
    local paths, texts = {}, {}
    for i, name in ipairs(select_names(operand)) do
        paths[i] = directory .. "/" .. name .. ".lua"
        texts[i] = cli.need(original(name))
        cli.expect(opts.force or not read_file(paths[i]),
            paths[i] .. " already exists; --force replaces it")
    end
    cli.need(private.make_directory(directory))
    for i, path in ipairs(paths) do
        cli.need(private.write(path, texts[i]))
        print(path)
    end
    return 0
end

function commands.check(operand)
    local status = 0
    for _, name in ipairs(select_names(operand)) do
        local path = prompt.find(name).path
        local found, problem = load_prompts(name)
        local problems, count = { problem }, 0
        if found then
            problems, count = check.all(subject_of(name), found, path)
        end
        for _, line in ipairs(problems) do
            print(line)
            status = 1
        end
        if #problems == 0 then
            print(("%s: %s fine (%s)"):format(name, quote.count(count, "prompt is", "prompts are"),
                path or "built in"))
        end
    end
    return status
end

function prompts.run(opts, operands)
    local command = commands[operands[1] or "list"]
    check_known(command, "command", operands[1] or "list", prompts.words)
    cli.expect(not operands[3] and not (operands[2] and command == commands.list),
        "unexpected argument " .. options.show(operands[3] or operands[2]))
    cli.check_modes(prompts, opts, operands[1] or "list")
    cli.refuse(flags.use_prompts(opts))
    own = opts.strategy and cli.need(strategy.load(opts.strategy)) or nil
    notice.listen(function() end) -- the output says where prompts come from
    return command(operands[2], opts)
end

return prompts
