--- A server of ponder.serve, and its clients as tasks of the same process.
---
---     served.run({ policies = policies }, function(client, server)
---         local result, body = client("POST", served.CHAT, served.chat("echo", "hi"))
---     end)

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local serve = require "ponder.serve"
local shell = require "shell"
local task = require "ponder.task"
local transport = require "ponder.model.transport"
local within = require "within"

local served = {}

served.CHAT = "/v1/chat/completions"
served.logged = nil -- the server's last log line
served.cancelled = nil -- set by the policy `wait` when it is cancelled

served.POLICIES = {
    echo = function(request)
        request:think("reading\n")
        request:write("you said: ")
        request:write(request.prompt)
    end,
    answer = function(request) return { answer = request.prompt, extra = 1 } end,
    raise = function() error "a secret of the server" end,
    fail = function() return nil, "no luck", "BUDGET" end,
    wait = function(request)
        local guarded <close> = setmetatable({}, { __close = function()
            served.cancelled = true
        end })
        request:write("first")
        task.sleep(20)
        return guarded and "late"
    end,
    random = function() return tostring(math.random(1 << 30)) end,
    tools = { run = function(request) return #request.params.tools .. " tools" end,
        accepts = { "tools" }, description = "counts tools" },
}

---Calls f(client, server, address) while a server listens.
---@param opts table of serve.new; default policies: those above
---@param f fun(client: function, server: table, address: string) client(method, path, body,
---  headers, on_event) returns the result, and its body decoded
function served.run(opts, f)
    task.run(function()
        opts.policies, opts.listen = opts.policies or served.POLICIES, "127.0.0.1:0"
        opts.log = function(text) served.logged = text end
        local server = serve.new(opts)
        local address = assert(server:start())
        local net = transport.new()
        local function client(method, path, body, headers, on_event)
            local all = { ["content-type"] = "application/json" }
            for name, value in pairs(headers or {}) do
                all[name] = value or nil
            end
            local result = net:send({ url = "http://" .. address .. path, method = method,
                body = type(body) == "table" and json.encode(body) or body, headers = all,
                proxy = "", stream = on_event and "sse" or nil, timeout_ms = 30000 }, on_event)
            local ok, decoded = pcall(json.decode, result.body or "")
            return result, ok and decoded or result.body
        end
        f(client, server, address)
        net:close()
        server:drain()
        server:wait()
    end)
end

--- A spec within `served.run`.
served.on_server = within(served.run)

---The body of a chat completion.
---@param model string
---@param text string of its one message
---@param more? table further fields
---@return table
function served.chat(model, text, more)
    local body = { model = model, messages = { { role = "user", content = text } } }
    return merge(body, more)
end

---Starts `ponder serve ARGUMENTS...` in a directory, and waits until it listens.
---@param dir table of shell.directory
---@param arguments string[]
---@param env? table<string, string>
---@return table server of shell.start
---@return fun(model: string, text: string, more: table?, key: string?): any ask what the model
---  answers, or the error's message; and the body of the reply
function served.start(dir, arguments, env)
    local words = { "serve", "--listen", "unix:" .. dir.path .. "/socket" }
    local server = shell.start(table.move(arguments, 1, #arguments, #words + 1, words), env,
        dir.path)
    return server, function(model, text, more, key)
        local body = json.decode(shell.output(("curl -s --unix-socket %s/socket http://x%s "
            .. "-H 'Content-Type: application/json' -H 'X-Api-Key: %s' -d %s"):format(dir.path,
            served.CHAT, key or "", shell.quote(json.encode(served.chat(model, text, more))))))
        return body.choices and body.choices[1].message.content or body.error.message, body
    end
end

---Asks for a stream.
---@return table[] events the data of each
---@return table result
function served.stream(client, path, body)
    local events = {}
    local result = client("POST", path, body, nil, function(_, data)
        events[#events + 1] = json.decode(data)
    end)
    return events, result
end

return served
