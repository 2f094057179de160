--- What --help shows first of a command: how people call it, and the options that they use most.

---@class ponder.cli.Examples
---@field [integer] string command lines, without `ponder`
---@field first? string[] the five options used most, of commands with many

local FIRST_OF_STRATEGIES = { "model", "max_cost", "timeout", "branching_factor", "json" }

---@type table<string, ponder.cli.Examples>
return {
    ask = { 'ask --strategy scripts/strategies/rsa.lua --model openai:gpt-4o-mini "How many?"',
        "ask --strategy mine.lua --help",
        first = { "strategy", "model", "max_cost", "timeout", "json" } },
    chat = { 'chat --model openai:gpt-4o-mini "Why is the sky blue?"', 'chat -c "And at dusk?"',
        'chat --attach photo.png --schema reply.json "What is on it?"',
        first = { "model", "system", "c", "attach", "schema" } },
    completion = { "completion bash >~/.local/share/bash-completion/completions/ponder" },
    cot = { 'cot --model openai:gpt-4o-mini "What is 17 * 23?"', "cot --json <question.txt",
        first = { "model", "max_cost", "timeout", "temperature", "json" } },
    diff = { "diff 1 2", "diff run.db fork.db --all" },
    doc = { "doc", "doc search.run", "doc --stubs ~/.local/share/ponder-stubs" },
    doctor = { "doctor", "doctor --timeout-ms 2s" },
    eval = { "eval eval.lua --limit 20 --model openai:gpt-4o-mini --max-cost 0.50",
        'eval eval.lua --html page.html --threshold "accuracy(tot) >= 0.7"',
        "eval --compare before.db after.db",
        first = { "model", "limit", "max_cost", "html", "baseline" } },
    export = { "export --format html --output run.html", "export --format dot 2 >tree.dot" },
    fork = { "fork --script better.lua", "fork -o temperature=0.2,max-depth=4 run.db" },
    got = { 'got --model openai:gpt-4o-mini "How do cities reduce heat?"',
        'got --model ollama:qwen3:8b --aggregation-strategy voting "Which?"',
        first = FIRST_OF_STRATEGIES },
    help = { "help tutorial", "help search" },
    init = { "init model", "init eval", "init policy first.lua" },
    log = { "log", "log --status failed --since 7d", "log --grep sums" },
    man = { "man | man -l -" },
    mcp = { "mcp policy.lua", "mcp scripts/strategies/rsa.lua --model openai:gpt-4o-mini" },
    models = { "models", "models ollama" },
    prompts = { "prompts list", "prompts eject tot", "prompts check --prompts ./prompts" },
    queue = { "queue redis://host", "queue redis://host --queue default --dead" },
    repl = { "repl" },
    replay = { "replay", "replay run.db" },
    resume = { "resume", "resume run.db --trust" },
    run = { "run policy.lua", "run --max-cost 2 --cache replies.db policy.lua 4 9 10 13",
        "run --untrusted --allow-model openai:gpt-4o-mini --max-calls 50 strange.lua",
        first = { "json", "max_cost", "timeout", "cache", "log" } },
    serve = { "serve policy.lua --listen 127.0.0.1:8321",
        "serve scripts/strategies/rsa.lua --model openai:gpt-4o-mini --max-cost 5",
        first = { "listen", "key_file", "model", "max_cost", "concurrency" } },
    show = { "show", "show 2 --tree", "show run.db --call 3" },
    tot = { 'tot --model openai:gpt-4o-mini "Use 4 4 6 8 to make 24"',
        'tot --model ollama:qwen3:8b --search uct --max-calls 100 "Use 4 4 6 8 to make 24"',
        "tot --models evaluate=anthropic:claude-haiku-4-5 --max-cost 0.50 --timeout 2m <task.txt",
        first = FIRST_OF_STRATEGIES },
    trm = { 'trm --model openai:gpt-4o-mini "Prove that 2 + 2 = 4"',
        first = { "model", "max_cost", "timeout", "max_supervision_steps", "json" } },
    trust = { "trust ./prompts", "trust --list" },
    view = { "view", "view run.db" },
    work = { "work redis://host --script solve.lua --concurrency 64" },
}
