--- The script whose functions workers call, and the code of its version.

local builtin = require "ponder.base.builtin"
local files = require "ponder.run.log.files"
local options = require "ponder.base.options"
local prompt = require "ponder.prompt"
local store = require "ponder.core.store"
local strategy = require "ponder.strategy"

local is_hosted, host = pcall(require, "ponder.core.host") -- a stock lua5.4 has none

local script = {}

---@class ponder.queue.Script
---@field path string as given
---@field functions table<string, function>
---@field code string 16 hex digits, equal for equal script, modules and prompts

-- Collects the texts of the modules beside a script that it requires, directly or indirectly. The
-- log gets them: a replay plays the functions here, and takes no code from workers.
local function add_modules(texts, directory, text)
    for name in text:gmatch "require%s*%(?%s*[\"']([%w_.-]+)[\"']" do
        local base = directory .. name:gsub("%.", "/")
        for _, path in ipairs { base .. ".lua", base .. "/init.lua" } do
            local module = not texts[name] and files.read(path, "module")
            if module then
                texts[name] = module
                add_modules(texts, directory, module)
            end
        end
    end
end

local PROMPTS = table.move(strategy.names, 1, #strategy.names, 2, { "ensemble" })

-- What worker and coordinator must have in common: the script, the modules beside it that it
-- requires, and the prompts.
local function fingerprint(path, text)
    local texts, parts = { [""] = text }, {}
    local absolute = is_hosted and host.absolute(path) or path
    add_modules(texts, absolute:match "^.*/" or "", text)
    for _, name in ipairs(PROMPTS) do
        local found = prompt.find(name)
        texts["prompts/" .. name] = found.path and not found.problem
            and files.read(found.path, "prompts", found.hash) or builtin.text(name)
    end
    for i, name in ipairs(options.names(texts)) do
        parts[i] = name .. " " .. store.sha256(texts[name])
    end
    return store.sha256(table.concat(parts, "\n")):sub(1, 16)
end

---A script whose functions run elsewhere (ponder.serve.untrusted).
function script.of(path, functions)
    return { path = path, functions = functions,
        code = fingerprint(path, (files.read(path, "script"))) }
end

---Loads a script: runs it and takes the functions of the table that it returns.
---@param functions_of? fun(chunk: function, path: string): any gets the functions of a script that
---returns something else
---@return string? code "UNREADABLE", "BAD_SCRIPT"
function script.load(path, functions_of)
    local chunk, message, code = files.load(path, "script")
    if not chunk then
        return nil, message, code or "BAD_SCRIPT"
    end
    local ok, value = pcall(functions_of or function(f) return f {} end, chunk, path)
    local functions, count = {}, 0
    for name, f in pairs(ok and type(value) == "table" and value or {}) do
        if type(name) == "string" and type(f) == "function" then
            functions[name], count = f, count + 1
        end
    end
    if not ok then
        return nil, ("%s: %s"):format(path, tostring(value)), "BAD_SCRIPT"
    elseif count == 0 then
        return nil, ("%s: must return a table of functions by name (got %s)"):format(path,
            options.show(value)), "BAD_SCRIPT"
    end
    return script.of(path, functions)
end

return script
