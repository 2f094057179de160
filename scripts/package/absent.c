/*
 * absent.c -- stands in for libraries of which Debian has no static archive, in `make static`:
 * Kerberos and SASL (curl's Negotiate and LDAP) and p11-kit (gnutls' smart cards), none of which
 * ponder uses. Each function fails as it does where nothing is configured.
 */
#define GSS(name)                                                                                  \
    unsigned name(void);                                                                           \
    unsigned name(void)                                                                            \
    {                                                                                              \
        return 16u << 16;                                                                          \
    } /* GSS_S_UNAVAILABLE */
#define SASL(name)                                                                                 \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return -4;                                                                                 \
    } /* SASL_NOMECH */
#define P11(name)                                                                                  \
    void *name(void);                                                                              \
    void *name(void)                                                                               \
    {                                                                                              \
        return 0;                                                                                  \
    } /* no module, no token */

void *GSS_C_NT_HOSTBASED_SERVICE;
GSS(gss_delete_sec_context)
GSS(gss_display_name)
GSS(gss_display_status)
GSS(gss_import_name)
GSS(gss_init_sec_context)
GSS(gss_inquire_context)
GSS(gss_release_buffer)
GSS(gss_release_name)
GSS(gss_unwrap)
GSS(gss_wrap)

SASL(sasl_client_init)
SASL(sasl_client_new)
SASL(sasl_client_start)
SASL(sasl_client_step)
SASL(sasl_decode)
SASL(sasl_encode)
SASL(sasl_getprop)
SASL(sasl_setprop)
P11(sasl_dispose)
P11(sasl_errdetail)
P11(sasl_errstring)
P11(sasl_global_listmech)
P11(sasl_set_mutex)

P11(p11_kit_config_option)
P11(p11_kit_message)
P11(p11_kit_module_finalize)
P11(p11_kit_module_get_flags)
P11(p11_kit_module_get_name)
P11(p11_kit_module_load)
P11(p11_kit_module_release)
P11(p11_kit_modules_load)
P11(p11_kit_pin_file_callback)
P11(p11_kit_pin_get_length)
P11(p11_kit_pin_get_value)
P11(p11_kit_pin_new_for_string)
P11(p11_kit_pin_register_callback)
P11(p11_kit_pin_request)
P11(p11_kit_pin_unref)
P11(p11_kit_pin_unregister_callback)
P11(p11_kit_space_strdup)
P11(p11_kit_space_strlen)
P11(p11_kit_strerror)
P11(p11_kit_uri_format)
P11(p11_kit_uri_free)
P11(p11_kit_uri_get_attribute)
P11(p11_kit_uri_get_attributes)
P11(p11_kit_uri_get_module_info)
P11(p11_kit_uri_get_pin_source)
P11(p11_kit_uri_get_pin_value)
P11(p11_kit_uri_get_token_info)
P11(p11_kit_uri_match_module_info)
P11(p11_kit_uri_match_token_info)
P11(p11_kit_uri_new)
P11(p11_kit_uri_parse)
P11(p11_kit_uri_set_attribute)
