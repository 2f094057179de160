--- Chooses and opens the model of each role of a strategy.

local client = require "ponder.model.client"
local model = require "ponder.model"
local options = require "ponder.options"

local models = {}

local OPEN_OPTIONS = { "base_url", "api_key", "headers", "max_in_flight" }

---The model of strategies whose options name none: $PONDER_MODEL, else the config file's.
---@return string? name nil: none is set
models.default = model.default_name

---The message if no model is named.
---@return string
function models.missing()
    return client.no_model(os.getenv)
end

-- A name, or an object with the `chat` method of ponder.model.Model.
local function is_model(named)
    local kind = type(named)
    return kind == "string" or kind == "table" and type(named.chat) == "function"
end

---Checks the options `model` and `models`; an invalid model or an unknown role raises.
---@param where string `"strategy.tot.new"`
---@param kind ponder.strategy.Kind
---@param opts table
---@param level integer
function models.check(where, kind, opts, level)
    if opts.model ~= nil and not is_model(opts.model) then
        error(("%s: opts.model must be a name or an open model (got %s)"):format(where,
            options.show(opts.model)), level + 1)
    end
    local roles = options.names(kind.fallback_roles)
    for role, named in pairs(opts.models or {}) do
        if not kind.fallback_roles[role] then
            error(("%s: opts.models: no role %s%s; there are: %s"):format(where,
                options.show(role), options.hint(role, roles),
                table.concat(roles, ", ")), level + 1)
        elseif not is_model(named) then
            error(("%s: opts.models.%s must be a name or an open model (got %s)"):format(where,
                role, options.show(named)), level + 1)
        end
    end
end

---The model named for a role: in `models`, for it or its fallback roles; else `model`.
---@param kind ponder.strategy.Kind
---@param opts table
---@param role string
---@return string|ponder.model.Model
function models.named(kind, opts, role)
    local by_role, seen = opts.models or {}, {}
    while not seen[role] do
        if by_role[role] ~= nil then
            return by_role[role]
        end
        seen[role] = true
        role = kind.fallback_roles[role]
    end
    return opts.model or models.default()
end

---The name of the model for a role.
---@param kind ponder.strategy.Kind
---@param opts table
---@param role string
---@return string name "none" if none is named
function models.name(kind, opts, role)
    local named = models.named(kind, opts, role)
    if type(named) == "table" then
        return type(named.name) == "string" and named.name or "custom model"
    end
    return named or "none"
end

---Opens the models of all roles.
---@param kind ponder.strategy.Kind
---@param opts table
---@return table<string, ponder.model.Model>? by_role
---@return string? message which key, provider or file is missing
---@return "NO_MODEL"? code
function models.open(kind, opts)
    local by_name, by_role, open_options = {}, {}, {}
    for _, name in ipairs(OPEN_OPTIONS) do
        open_options[name] = opts[name]
    end
    for _, role in pairs(kind.roles) do
        local named = models.named(kind, opts, role)
        if not named then
            return nil, models.missing(), "NO_MODEL"
        elseif type(named) == "string" and not by_name[named] then
            local ok, opened = pcall(model.open, named, open_options)
            if not ok then
                return nil, (tostring(opened):gsub("^.-model%.open: ", "")), "NO_MODEL"
            end
            by_name[named] = opened
        end
        by_role[role] = by_name[named] or named
    end
    return by_role
end

return models
