/*
 * Plug-in of OpenIPMI's simulator: DCMI's "Get Power Reading" (DCMI 1.5, section 6.6.1).
 *
 * The power is what the file named by the plug-in's option holds, as a decimal number of watts,
 * read anew with each request. Every statistic (now, least, most, mean) is that number. After it
 * may stand whether power is measured (1 or 0), and a time stamp to say instead of the time.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <OpenIPMI/ipmi_err.h>
#include <OpenIPMI/mcserv.h>
#include <OpenIPMI/serv.h>

#define GROUP_DCMI 0xdc
#define COMMAND_GET_POWER_READING 0x02

#define CODE_OK 0x00
#define CODE_INVALID_COMMAND 0xc1
#define CODE_CANNOT_ANSWER 0xce

#define PERIOD_MS 1000
#define STATE_MEASURING 0x40

static char watts_file[4096];

/* Writes a number, least significant byte first, and returns where the next one goes. */
static unsigned char *put(unsigned char *place, unsigned long value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        *place++ = value & 0xff;
    return place;
}

static void answer_dcmi(lmc_data_t *controller, msg_t *request, unsigned char *response,
                        unsigned int *response_bytes, void *unused)
{
    unsigned char *end = response;
    unsigned int watts, measuring = 1;
    unsigned long stamp = (unsigned long)time(NULL);
    FILE *file;
    int numbers;

    if (request->cmd != COMMAND_GET_POWER_READING) {
        *response_bytes = put(end, CODE_INVALID_COMMAND, 1) - response;
        return;
    }
    file = fopen(watts_file, "r");
    numbers = file ? fscanf(file, "%u %u %lu", &watts, &measuring, &stamp) : 0;
    if (file)
        fclose(file);
    if (numbers < 1) {
        *response_bytes = put(end, CODE_CANNOT_ANSWER, 1) - response;
        return;
    }
    end = put(end, CODE_OK, 1);
    end = put(end, GROUP_DCMI, 1);
    for (int statistic = 0; statistic < 4; statistic++)
        end = put(end, watts, 2);
    end = put(end, stamp, 4);
    end = put(end, PERIOD_MS, 4);
    end = put(end, measuring ? STATE_MEASURING : 0, 1);
    *response_bytes = end - response;
}

int ipmi_sim_module_init(sys_data_t *system, const char *option)
{
    if (strlen(option) >= sizeof watts_file)
        return E2BIG;
    strcpy(watts_file, option);
    ipmi_emu_register_group_extension_handler(GROUP_DCMI, answer_dcmi, NULL);
    return 0;
}

int ipmi_sim_module_post_init(sys_data_t *system)
{
    return 0;
}
