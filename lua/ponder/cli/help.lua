--- `ponder help [COMMAND|TOPIC]`: the --help of a command, or a topic.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local options = require "ponder.base.options"
local render = require "ponder.show.reference.render"

-- In reading order. Each is a file in docs.
local TOPICS = {
    { "tutorial", "from a prompt to an evaluated policy, in ten steps" },
    { "commands", "which command does what; exit statuses; settings" },
    { "providers", "models, their names and keys; scripted models" },
    { "searches", "which search to choose, and what each needs" },
    { "policies", "how to write a search policy of your own" },
    { "prompt-files", "your own prompts" },
    { "evaluation", "what the figures of ponder eval mean, and how far to trust them" },
    { "optimization", "better prompts and options, measured on items held out" },
    { "samples", "how many samples to ask for, how to choose, and what helps when" },
    { "budgets", "limits on cost, calls and time; prices; caches" },
    { "logs", "the run log: resume, replay, fork; its tables" },
    { "serving", "a policy as a model for other programs, or as a tool for agents" },
    { "many-machines", "from one machine to ten: queues and workers" },
    { "safety", "what each way of running code protects, and from whom" },
    { "papers", "which figures of papers are reproduced, and which demonstrated" },
    { "coming-from", "from llm-reasoners, TreeQuest, graph-of-thoughts or DSPy" },
    { "agents", "how a coding agent uses ponder (also installed as SKILL.md)" },
    { "install", "packages, containers, systems, editors" },
    { "internals", "how ponder is made: the way of a call, a search, a run" },
}

local help = { words = {}, expects = { 0, 1, "one command or topic" } }

help.summary = "a command's --help, or a topic: ponder help tutorial"

local lines = {}
for i, topic in ipairs(TOPICS) do
    help.words[i] = topic[1]
    lines[i] = ("  %-18s %s"):format(topic[1], topic[2])
end

help.about = [[
ponder help [COMMAND|TOPIC]

Shows the --help of a command, or one of these topics:

]] .. table.concat(lines, "\n") .. [[


ponder doc is the reference of the library.]]

function help.run(_, operands)
    if not operands[1] then
        print(cli.help(args.columns()))
        return 0
    end
    local name = operands[1]
    local usage = cli.usage(name)
    if not usage and not options.has(help.words, name) then
        local near = options.nearest(name, help.words) or cli.nearest_command(name)
        return nil, ("no such command or topic: %s%s"):format(options.show(name),
            near and (" (did you mean %s?)"):format(near) or "; ponder help help lists the topics")
    end
    if usage then
        print(usage)
    else
        local reference = render.read("reference")
        render.print(reference, reference.topics[name])
    end
    return 0
end

return help
