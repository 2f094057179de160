--- The requests that an untrusted script may send, and how this process carries them out, if they
--- are allowed.

local directories = require "ponder.core.directory"
local foreign = require "ponder.serve.http.foreign"
local host = require "ponder.core.host"
local json = require "ponder.json"
local log = require "ponder.log"
local options = require "ponder.base.options"
local task = require "ponder.task"

local requests = {}

local MAX_FILE = 32 << 20 -- bytes
local MAX_TRANSFERS = 4 -- concurrent files and server replies
local MAX_BODY = 16 << 20
local FETCH_MS = 60000

-- What a policy may pass in a call; the rest is refused by name: the address, further fields of the
-- request, and what makes the provider fetch or search (its own tools, images, files). A rule is
-- true for any data, the name of a type, a list of permitted texts, { each = rule } for a list, or
-- rules by field.
local TEXTS = { each = { type = { "text" }, text = "string" } }
local FUNCTION = { name = "string", description = "string", parameters = true, strict = "boolean" }
local CHOICE = { type = { "function" }, name = "string", ["function"] = { name = "string" } }
local TOOL_CALL = { id = "string", type = { "function" }, name = "string", arguments = true,
    arguments_json = "string", ["function"] = { name = "string", arguments = "string" } }
local BLOCK = { type = { "text", "thinking", "redacted_thinking", "tool_use" }, text = "string",
    thinking = "string", signature = "string", data = "string", id = "string", name = "string",
    input = true, citations = true, caller = true }
local MESSAGE = { role = "string", content = TEXTS, tool_calls = { each = TOOL_CALL },
    tool_call_id = "string", name = "string", is_error = "boolean", blocks = { each = BLOCK } }
local TOOL = options.merge({ type = { "function" }, ["function"] = FUNCTION }, FUNCTION)
local CALL = { messages = { each = MESSAGE }, system = TEXTS, tools = { each = TOOL },
    tool_choice = CHOICE, stop = { each = "string" }, response_format = true,
    returns = true }
for _, name in ipairs { "n", "temperature", "top_p", "max_output_tokens", "seed",
    "repair", "logprobs", "reasoning_effort", "timeout_ms", "max_retries", "cache", "sample" } do
    CALL[name] = true
end

-- Fields of a reply that it receives: not the provider's extra ones.
local REPLY = { "text", "texts", "samples", "message", "json", "jsons", "value", "values",
    "usage", "model", "id",
    "finish_reason", "tool_calls", "reasoning", "refusal", "logprobs", "latency_ms", "attempts",
    "truncated", "cost", "cached", "scripted", "recorded", "dropped" }

local function refuse(message)
    return { message = message, code = "DENIED" }
end

-------------------------------------------------------------------------------
-- Models

-- The first place in a value that its rule does not permit. A text may stand for a list or table,
-- and null for what is missing.
local function forbidden(value, rule, where)
    if rule == true or value == json.null or type(rule) == "table" and not rule[1]
        and type(value) == "string" then
        return nil
    elseif type(rule) == "string" or rule[1] then
        local ok = type(rule) == "string" and type(value) == rule
            or type(rule) == "table" and options.has(rule, value)
        return not ok and ("%s (%s)"):format(where, options.show(value)) or nil
    elseif type(value) ~= "table" then
        return ("%s (%s)"):format(where, options.show(value))
    end
    for key, item in pairs(value) do
        local inner = rule.each or rule[key]
        local place = rule.each and ("%s[%s]"):format(where, key) or ("%s.%s"):format(where, key)
        local found = not inner and place or forbidden(item, inner, place)
        if found then
            return found
        end
    end
end

local function chat(self, what)
    local name = what.model
    local m = type(name) == "string" and self.models[name]
    if not m or type(what.call) ~= "table" then
        return refuse(("the model %s is not allowed (--allow-model)"):format(options.show(name)))
    end
    local found = forbidden(what.call, CALL, "opts")
    if found then
        return refuse(("model.chat: %s is not allowed under --untrusted"):format(found))
    end
    local ok, reply, message, code, partial = pcall(m.chat, m, what.call)
    if not ok then
        return { raised = tostring(reply) }
    end
    return { reply = reply and options.pick(reply, REPLY), message = message, code = code,
        partial = partial and options.pick(partial, REPLY) }
end

-------------------------------------------------------------------------------
-- Files

local function is_below(path, directory)
    return directory == "/" or path:sub(1, #directory + 1) == directory .. "/"
end

-- A link may be put in place between the check of a path and its opening: the opened file's own
-- path is checked.
local function read_below(path, directory)
    local opened <close>, place, code = directories.open(path)
    if not opened then
        return nil, place, code
    elseif not is_below(place, directory) then
        return nil, path .. ": no longer exists", "NOT_FOUND"
    end
    local text = opened:read(MAX_FILE + 1) or ""
    if #text > MAX_FILE then
        return nil, ("%s: larger than %d MiB"):format(path, MAX_FILE >> 20), "TOO_LARGE"
    end
    return text
end

local function read(self, what, await_room, call)
    local path = type(what.path) == "string" and not what.path:find "\0"
        and host.absolute(what.path)
    for _, directory in ipairs(path and self.directories or {}) do
        if is_below(path, directory) then
            local _ <close> = self.transfers:acquire()
            await_room(call)
            local text, message, code = log.record("read", { path = path }, read_below, path,
                directory)
            return { text = text, message = message, code = code }
        end
    end
    return refuse(("cannot read %s: it does not exist or is not below a directory of --allow-read")
        :format(options.show(what.path)))
end

-------------------------------------------------------------------------------
-- Servers

local PORTS = { http = "80", https = "443" }

-- The host and port of a URL; nil for one that parsers could read differently.
local function server_of(url)
    local scheme, name, rest = url:match "^(https?)://([%w.-]+)(.*)$"
    local port, path = (rest or ""):match "^:?(%d*)(.*)$"
    if not scheme or not path:find "^[/?]?[%w%-._~:/?#%[%]@!$&'()*+,;=%%]*$"
        or path ~= "" and not path:find "^[/?]" or rest:find "^:%D" then
        return nil
    end
    return name:lower(), port ~= "" and port or PORTS[scheme], PORTS[scheme]
end

local function is_allowed(self, url)
    local name, port, usual = server_of(url)
    return name and (self.hosts[name .. ":" .. port] or port == usual and self.hosts[name])
end

-- Reserved names, which nobody can register: their addresses are the user's choice.
local OWN_NAMES = { "^[%d.]+$", "^[^.]+$", "%.localhost$", "%.local$", "%.internal$",
    "%.home%.arpa$" }

local function is_own(name)
    for _, pattern in ipairs(OWN_NAMES) do
        if name:find(pattern) then
            return true
        end
    end
    return false
end

-- A proxy of the environment would resolve names itself.
local PROXIES = { "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY" }

local function has_proxy()
    for _, name in ipairs(PROXIES) do
        if (os.getenv(name) or "") ~= "" then
            return true
        end
    end
    return false
end

-- Headers that name the host or delimit the message are refused.
local REFUSED = { host = true, connection = true, ["content-length"] = true, te = true,
    ["transfer-encoding"] = true, trailer = true, upgrade = true, ["keep-alive"] = true }

local function is_header(name, value)
    return type(name) == "string" and name:find "^[%w-]+$" and not REFUSED[name:lower()]
        and not name:lower():find "^proxy" and type(value) == "string" and not value:find "%c"
end

-- A redirect is returned to the policy, which may request its target if that is allowed.
local function send(url, opts, name)
    local result = require("ponder.model.transport").shared():send { url = url,
        method = opts.method, headers = opts.headers, body = opts.body,
        timeout_ms = opts.timeout_ms, max_body_bytes = MAX_BODY,
        max_redirects = 0, public_only = not (is_own(name) or has_proxy()) }
    if result.code then
        return { message = result.error, code = result.code }
    end
    return { reply = { status = result.status, headers = result.headers, body = result.body } }
end

local METHODS = { GET = true, HEAD = true, POST = true, PUT = true, DELETE = true, PATCH = true }

local function fetch(self, what, await_room, call)
    local url, given = what.url, what.opts
    if type(url) ~= "string" or type(given) ~= "table" or not is_allowed(self, url) then
        return refuse(("%s is not allowed: --allow-net does not name its host"):format(
            options.show(url)))
    end
    local opts = { method = METHODS[given.method] and given.method or "GET", headers = {},
        body = type(given.body) == "string" and given.body or nil,
        timeout_ms = math.type(given.timeout_ms) == "integer" and given.timeout_ms > 0
            and given.timeout_ms or FETCH_MS }
    for name, value in pairs(type(given.headers) == "table" and given.headers or {}) do
        opts.headers[name] = is_header(name, value) and value or nil
    end
    local _ <close> = self.transfers:acquire()
    await_room(call)
    return log.record("fetch", { url = url, opts = opts }, send, url, opts, (server_of(url)))
end

-------------------------------------------------------------------------------
-- Tools

local function tool(self, what)
    local f = type(what.name) == "string" and self.tools[what.name]
    if not f then
        return refuse(("the tool %s is not allowed (--allow-tool)"):format(options.show(what.name)))
    end
    local ok, result, message, code = pcall(log.tool, what.name, what.arguments, f, what.arguments)
    if not ok then
        return { message = tostring(result), code = "ERROR" }
    elseif not pcall(json.encode, result) then
        return { message = "what the tool returned is not data", code = "ERROR" }
    end
    return { result = result, message = message ~= nil and tostring(message) or nil,
        code = code ~= nil and tostring(code) or nil }
end

-------------------------------------------------------------------------------
-- Programs

local PROCESS = { "command", "shell", "input", "timeout_ms", "max_output_bytes", "max_memory_mb" }
local PROGRAM_MS = 60000
local PROGRAM_LIMITS = { timeout_ms = 600000, max_output_bytes = 16 << 20, max_memory_mb = 1024 }
local MAX_PROGRAMS = 4 -- concurrent

-- Only isolated programs, which see no directory of ours; `env` sets variables but passes none on.
local function process(self, what)
    local given = type(what.opts) == "table" and what.opts or {}
    local opts = options.pick(given, PROCESS)
    opts.isolate, opts.env = true, { PATH = "/usr/local/bin:/usr/bin:/bin" }
    opts.timeout_ms = opts.timeout_ms or PROGRAM_MS
    for name, max in pairs(PROGRAM_LIMITS) do
        opts[name] = opts[name] and math.min(math.tointeger(opts[name]) or max, max)
    end
    for name, value in pairs(type(given.env) == "table" and given.env or {}) do
        opts.env[name] = type(name) == "string" and value or nil
    end
    local _ <close> = self.programs:acquire()
    local ok, done, message, code, partial = pcall(require("ponder.process").run, opts)
    if not ok then
        return { raised = tostring(done) }
    end
    return { done = done, message = message, code = code, partial = partial }
end

-------------------------------------------------------------------------------

local KINDS = { chat = chat, read = read, fetch = fetch, process = process, tool = tool }

---Carries a request out, if it is allowed; within a task.
---@param await_room fun(call: table) waits before a large read
function requests.perform(self, request, await_room, call)
    local what = type(request.what) == "string" and foreign.decode(request.what)
    local kind = KINDS[request.kind]
    return kind and type(what) == "table" and kind(self, what, await_room, call)
        or refuse("malformed request")
end

---Opens the resources that are allowed.
function requests.prepare(self, opts)
    self.models, self.directories, self.hosts, self.tools = {}, {}, {}, opts.tools or {}
    self.programs = task.semaphore(MAX_PROGRAMS)
    self.transfers = task.semaphore(MAX_TRANSFERS)
    for _, allowed in ipairs(opts.models or {}) do
        local opened, problem = require("ponder.model").try_open(allowed)
        if not opened then
            return nil, problem
        end
        self.models[allowed] = opened
    end
    for i, directory in ipairs(opts.directories or {}) do
        local path, problem = host.absolute(directory)
        if not path then
            return nil, problem
        end
        self.directories[i] = path
    end
    for _, name in ipairs(opts.hosts or {}) do
        if not name:find "^[%w.-]+$" and not name:find "^[%w.-]+:%d+$" then
            return nil, ("--allow-net: %s is not HOST or HOST:PORT"):format(options.show(name))
        end
        self.hosts[name:lower()] = true
    end
    return true
end

return requests
