--- `ponder doctor`: checks the configuration, which models can be reached, and how to fix problems.
---
--- Keys are never printed; a variable that holds one is shown as "(set)".

local cli = require "ponder.cli.shared.main"
local builtin = require "ponder.base.builtin"
local cache = require "ponder.model.cache"
local environment = require "ponder.base.environment"
local directories = require "ponder.core.directory"
local health = require "ponder.run.redis.health"
local host = require "ponder.core.host"
local json = require "ponder.json"
local model = require "ponder.model"
local model_name = require "ponder.model.name"
local models = require "ponder.cli.models"
local options = require "ponder.base.options"
local price = require "ponder.model.price"
local private = require "ponder.core.private"
local prompt = require "ponder.prompt"
local process = require "ponder.process"
local pure = require "ponder.base.pure"
local quote = require "ponder.quote"
local exists, read_file = require("ponder.base.file").exists, require("ponder.base.file").read
local redis = require "ponder.redis"
local schema = require "ponder.run.log.schema"
local state_files = require "ponder.base.state"
local style = require "ponder.show.style"
local task = require "ponder.task"
local text = require "ponder.show.text"

local doctor = cli.command({}, {
    { "json", help = "print the findings as one JSON list" },
    { "timeout_ms", value = "TIME", type = "duration", unit = "ms", min = 1, default = 5000,
        help = "how long to wait for each server (default: 5s)" },
    options.merge({ modes = { "" } }, cli.VERBOSE),
})

doctor.summary = "check the configuration and which models can be reached"

doctor.about = [[
ponder doctor [OPTION...] [REDIS_URL...]

Checks the environment, the config file, prices and prompts, asks each configured server for its
models, and says how to fix each problem. Status 0: the default model can be used.

With Redis URLs, checks only these: whether each can be reached, its version, latency, memory,
eviction and persistence. Status 0: no problem.]]

---@class ponder.Finding
---@field about string the subject
---@field state "ok"|"problem"|"unused"
---@field found string
---@field advice string? how to fix it

local function finding(about, state, found, advice)
    return { about = about, state = state, found = found, advice = advice }
end

-------------------------------------------------------------------------------
-- Configuration

-- A file of settings, which `load` checks. `otherwise`: what counts without it.
local function check_file(about, path, load, otherwise)
    local ok, problem = pcall(load)
    if not ok then
        local front, advice = tostring(problem):match("^(.*); (" .. model_name.ADVICE:sub(3)
            .. ")$")
        return finding(about, "problem", front or tostring(problem), advice)
    elseif not path or not exists(path) then
        return finding(about, "unused", path and path .. " does not exist" .. otherwise
            or "no $HOME")
    end
    return finding(about, "ok", path)
end

local function check_prices()
    local path = model_name.prices_path(os.getenv)
    return check_file("prices", path, function()
        price.load(os.getenv, model_name.load_config(os.getenv))
        return path and model_name.load_file(path)
    end, ": built-in prices apply")
end

local function check_environment()
    local set = {}
    for _, variable in ipairs(environment.LIST) do
        local value = os.getenv(variable.name)
        if value and value:find("%S") then
            local is_url = value:find("://", 1, true)
            set[#set + 1] = variable.name .. ((variable.kind == "key" or is_url) and " (set)"
                or "=" .. value)
        end
    end
    return finding("environment", #set > 0 and "ok" or "unused",
        #set > 0 and table.concat(set, ", ") or "none of the variables that ponder reads is set")
end

-------------------------------------------------------------------------------
-- Files that others may read

local OTHERS, OTHERS_WRITE = 63, 18 -- permission bits 077, 022
local APPLICATION_ID_AT = 68 -- bytes before SQLite's application_id in a database file
local OURS = { [schema.APPLICATION_ID] = true, [cache.APPLICATION_ID] = true }

local function is_log_or_cache(path)
    local file <close> = io.open(path, "rb")
    local id = file and file:seek("set", APPLICATION_ID_AT) and file:read(4) or ""
    return #id == 4 and OURS[string.unpack(">I4", id)]
end

-- The path, if its mode has any of these permission bits.
local function path_if_exposed(path, bits)
    local about = private.about(path)
    return about and about.mode & bits ~= 0 and path or nil
end

-- Files that others can read or write: anything in the state directory, logs and caches in the
-- working directory, settings.
local function exposed_files()
    local list, at = {}, state_files.directory()
    list[1] = at and path_if_exposed(at, OTHERS)
    for _, file in ipairs(at and directories.files(at) or {}) do
        list[#list + 1] = path_if_exposed(at .. "/" .. file.name, OTHERS)
    end
    for _, file in ipairs(directories.files(".") or {}) do
        local path = path_if_exposed("./" .. file.name, OTHERS)
        list[#list + 1] = path and is_log_or_cache(path) and path or nil
    end
    for _, path_of in ipairs { model_name.config_path, model_name.prices_path } do
        local path = path_of(os.getenv)
        local has_key = path and (read_file(path) or ""):find("api_key", 1, true)
        list[#list + 1] = path and path_if_exposed(path, has_key and OTHERS or OTHERS_WRITE)
    end
    table.sort(list)
    return list
end

local function check_privacy()
    local list = exposed_files()
    if not list[1] then
        return finding("privacy", "ok", "only their owner may read logs, caches and settings")
    end
    return finding("privacy", "problem", "others may read or write " .. table.concat(list, ", "),
        "chmod go= " .. table.concat(list, " "))
end

-------------------------------------------------------------------------------
-- Prompts

-- The syntax error of a Lua file, which is not run.
local function syntax_problem(path)
    local code, message = read_file(path)
    if not code then
        return message
    end
    return (select(2, pure.load(code, "@" .. path, {})))
end

local function check_prompts(findings)
    local unused, last
    for _, name in ipairs(builtin.prompt_names()) do
        local found = prompt.find(name)
        local problem = found.problem or found.path and syntax_problem(found.path)
        unused = unused or found.unused
        if problem and problem ~= last then -- a problem of the directory is the same for each
            last = problem
            findings[#findings + 1] = finding("prompts", "problem", problem, found.problem
                and "correct that, or correct or unset PONDER_PROMPTS"
                or ("correct %s, or move it away to use the built-in prompts"):format(found.path))
        elseif found.path and not problem then
            findings[#findings + 1] = finding("prompts", "ok",
                ("%s overrides the built-in ones"):format(found.path))
        end
    end
    if unused then
        findings[#findings + 1] = finding("prompts", "unused", "not used: " .. unused,
            "review the files there; to use them: ponder trust ./prompts")
    end
end

-------------------------------------------------------------------------------
-- Servers

local ADVICE = {
    AUTH = "the server refused the key: check the variable that holds it",
    TLS = "check the clock, the package ca-certificates and $SSL_CERT_FILE",
    TIMEOUT = "check the network and the proxy ($https_proxy)",
    NOT_FOUND = "check the address: for most servers it ends in /v1",
    RATE_LIMITED = "wait a while, or check the account's limits",
    QUOTA = "check the account's credit",
}

local START = {
    ollama = "start it with `ollama serve`, or set $OLLAMA_HOST to its address",
    openai = "is the server of $OPENAI_BASE_URL running? (llama-server -m FILE --port 8080)",
}

local function advice_for(provider, code)
    if code == "CONNECT" then
        return START[provider] or "check the network and the proxy"
    end
    return ADVICE[code]
end

-- Asks a provider for its models: a finding with `models`; nil for one without a server.
local function check_provider(provider, timeout_ms)
    local opts = { timeout_ms = timeout_ms, connect_timeout_ms = timeout_ms, max_retries = 0 }
    local opened, why = model.try_open(provider .. ":*", opts)
    if not opened then
        local variable = why:match("[%u_]+_KEY")
        local advice = variable and ("to use it: export %s=..."):format(variable)
        if advice and provider == "openai" then
            advice = advice .. "; llama.cpp: export OPENAI_BASE_URL=http://127.0.0.1:8080/v1"
        end
        return finding(provider, variable and "unused" or "problem", why, advice)
    elseif not opened.target.provider.models_path then
        return nil
    end
    local began = task.now()
    local list, message, code = opened:list()
    local url = (opened.target.base_url or ""):gsub("%?.*$", "") -- a query may hold a secret
    if not list then
        local state = (provider ~= "ollama" or model.is_configured(provider)) and "problem"
            or "unused"
        message = message:gsub("^" .. provider .. ": ", "")
        if not message:find(url, 1, true) then
            message = url .. ": " .. message
        end
        return finding(provider, state, message, advice_for(provider, code))
    end
    local found = finding(provider, "ok", ("%s offers %s (%.0f ms)"):format(url,
        quote.count(#list, "model"), (task.now() - began) * 1000),
        #list == 0 and provider == "ollama" and "get one: ollama pull qwen3:8b" or nil)
    found.models = list
    return found
end

-- Isolation of policies under --untrusted, and of programs in a sandbox.
local function check_isolation()
    local missing = require("ponder.serve.untrusted").missing()
    if not missing[1] then
        return finding("isolation", "ok", "this kernel has Landlock and seccomp, for --untrusted "
            .. "and ponder.sandbox")
    end
    return finding("isolation", "unused", ("this kernel has no %s: --untrusted refuses to "
        .. "run, ponder.sandbox confines less"):format(table.concat(missing, " and no ")),
        "boot with lsm=landlock,... (Linux 5.13), or use --weak-isolation")
end

-- Isolation of child programs, found by trying it: containers forbid it in many ways.
local function check_namespaces()
    local done, message = process.run { command = { "true" }, isolate = true, timeout_ms = 10000 }
    if done and done.status == 0 then
        return finding("namespaces", "ok", "programs can be isolated (isolate = true)")
    end
    return finding("namespaces", "unused", message or "no program could be started in them",
        "process.run { isolate = true } refuses; allow unprivileged user namespaces "
        .. "(sysctl user.max_user_namespaces; a container's seccomp profile)")
end

local NAME_ONE = "name one (export PONDER_MODEL=openai:gpt-6-luna, ollama:qwen3:8b, "
    .. "script:FILE...), or give --model each time"

local function check_default(by_provider)
    local name = model.default_name()
    if not name then
        return finding("default model", "unused", "none is named", NAME_ONE)
    end
    local readable, path = pcall(model.script_file, name)
    if not readable then
        return finding("default model", "problem", path)
    elseif path then
        local problem = syntax_problem(path)
        return finding("default model", problem and "problem" or "ok", problem or name)
    end
    local opened, why = model.try_open(name)
    if not opened then
        return finding("default model", "problem", ("%s: %s"):format(name, why),
            not why:find(model_name.ADVICE, 1, true) and "set that, or " .. NAME_ONE or nil)
    end
    local server = by_provider[opened.provider]
    if not server then
        return finding("default model", "ok", opened.name)
    elseif not server.models then
        return finding("default model", "problem", opened.name .. ": its server does not answer",
            "see " .. opened.provider .. " above")
    end
    local ids = {}
    for i, one in ipairs(server.models) do
        ids[i] = tostring(one.id)
        if ids[i] == opened.model or ids[i] == opened.model .. ":latest" then
            return finding("default model", "ok", opened.name .. (one.shutdown
                and (" (it will be shut down on %s)"):format(one.shutdown) or ""))
        end
    end
    local near = options.nearest(opened.model, ids)
    return finding("default model", "problem", opened.name .. " is not among its server's models",
        ("see `ponder models %s`%s"):format(opened.provider,
            near and ("; did you mean %s?"):format(near) or ""))
end

-------------------------------------------------------------------------------

local MARKS = { ok = { "ok", "green" }, problem = { "!!", "red" }, unused = { "--", "dim" } }

local function report(given, findings)
    if given.json then
        return cli.print_json(json.array(findings))
    end
    local out = style.of(1)
    local width = out.is_terminal and math.max(out:size() - 19, 20) or 1000
    for _, found in ipairs(findings) do
        local mark = MARKS[found.state]
        local lines = text.wrap(text.line(found.found), width)
        if found.advice then
            local advice = text.wrap("-> " .. text.line(found.advice), width)
            table.move(advice, 1, #advice, #lines + 1, lines)
        end
        for i, line in ipairs(lines) do
            print((i == 1 and out:paint(mark[1], mark[2]) .. (" %-14s "):format(found.about)
                or (" "):rep(18)) .. line)
        end
    end
end

function doctor.run(given, operands)
    for _, operand in ipairs(operands) do
        cli.expect(redis.is_url(operand), "expected no argument, or redis://...")
    end
    cli.check_modes(doctor, given, operands[1] and "the URL of a Redis" or "")
    if operands[1] then
        local findings, status = {}, 0
        for _, list in ipairs(task.map(operands, function(url)
            return health.check(url, given.timeout_ms)
        end)) do
            for _, found in ipairs(list) do
                findings[#findings + 1] = found
                status = found.state == "problem" and 1 or status
            end
        end
        report(given, findings)
        return status
    end
    local findings = { finding("ponder", "ok", host.version .. ", " .. _VERSION),
        check_file("config file", model_name.config_path(os.getenv), function()
            model_name.load_config(os.getenv)
        end, ""), check_environment(), check_privacy(), check_isolation(),
        check_namespaces() }
    check_prompts(findings)
    local default
    if findings[2].state == "problem" then
        default = finding("default model", "problem", "unknown while the config file is broken")
    else
        findings[#findings + 1] = check_prices()
        local providers, unused = models.servers()
        findings[#findings + 1] = finding("others", "unused", "no key or address is set for "
            .. table.concat(unused, ", "))
        local by_provider = task.map(providers, function(provider)
            return check_provider(provider, given.timeout_ms) or false
        end)
        for i, provider in ipairs(providers) do
            findings[#findings + 1] = by_provider[i] or nil
            by_provider[provider] = by_provider[i] or nil
        end
        default = check_default(by_provider)
    end
    findings[#findings + 1] = default
    report(given, findings)
    return default.state == "ok" and 0 or 1
end

return doctor
